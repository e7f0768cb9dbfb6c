/* SPDX-License-Identifier: MIT */
/* Front ends: they act, pause, and stop. */
#include "tests/simulate/front.h"

#include <stdio.h>

#include "tests/simulate/sim.h"
#include "tests/support/upgrade_model.h"

#define FRONT_ENDS_MAX 3

struct process {
    struct sim *sim;
    unsigned acts;
};

static void work(void *arg)
{
    const struct process *self = arg;
    struct sim *sim = self->sim;
    const struct front *front = &sim->kind->front;
    unsigned pause_ms = SIM_PICK(front->pauses_ms);

    for (unsigned i = 0; i < self->acts; i++) {
        trouble_await_queues(&sim->troubles);
        front->act(sim->state);
        virtual_sleep((int64_t)sim_draw(pause_ms) + 1);
    }
    if (sim->front_ends == 1 && front->last)
        front->last(sim->state);
    sim->front_ends--;
}

void front_start(struct sim *sim)
{
    unsigned count = 1 + sim_draw(FRONT_ENDS_MAX);

    sim->front_ends = count;
    for (unsigned i = 0; i < count; i++) {
        struct process *self = arena_alloc(&sim->arena, sizeof(*self));
        char name[16];

        *self = (struct process){sim, 5 + sim_draw(sim->kind->front.acts)};
        (void)snprintf(name, sizeof(name), "front%u", i + 1);
        virtual_start(virtual_process(name), name, work, self);
    }
}

void front_thinks(unsigned most_ms)
{
    if (sim_chance(50))
        virtual_yield();
    else
        virtual_sleep((int64_t)sim_draw(most_ms) + 1);
}

void front_sets_bystanders(struct arena *arena, struct entity *entity,
    const char *large, const char *small)
{
    const struct {
        const char *name;
        enum edm_type type;
        const char *json;
    } bystanders[] = {
        {"Key", EDM_GUID, "\"0d6a1f6e-9a51-4a2c-8f0e-1c9a0f6d2b77\""},
        {"Bytes", EDM_BINARY, "\"AAH/\""},
        {"Nothing", EDM_DOUBLE, "\"NaN\""},
        {"Whole", EDM_DOUBLE, "5.0"},
        {"Word", EDM_STRING, "\"na\\u00efve \\\"\\u20ac\\\"\""},
        {large, EDM_INT64, "\"-9223372036854775808\""},
        {"Moment", EDM_DATETIME, "\"2024-02-29T23:59:59.9999999Z\""},
        {"Is", EDM_BOOLEAN, "true"},
        {small, EDM_INT32, "-2147483648"},
    };

    for (size_t i = 0; i < sizeof(bystanders) / sizeof(bystanders[0]); i++)
        if (sim_chance(30))
            model_set(entity, arena, bystanders[i].name, bystanders[i].type,
                bystanders[i].json);
}

void front_asks(struct sim *sim, const char *what)
{
    int64_t at_ticks = sim_chance(30) ? sim_now_ticks() : 0;
    unsigned times = sim_chance(25) ? 2 : 1;
    char id[16] = "";

    if (sim->kind->two_jobs && !sim_chance(60)) {
        (void)snprintf(id, sizeof(id), "b%u", ++sim->ids);
        sim_control_enqueue_job(sim, 1, what, id);
        return;
    }
    if (sim_chance(70))
        (void)snprintf(id, sizeof(id), "r%u", ++sim->ids);
    if (sim_chance(20)) {
        sim_enqueue(sim, what, "", true, 0);
        return;
    }
    for (; times > 0; times--) {
        if (id[0] && sim_chance(40))
            sim_control_enqueue(sim, what, id);
        else
            sim_enqueue(sim, what, id, false, at_ticks);
        front_thinks(3000);
    }
}
