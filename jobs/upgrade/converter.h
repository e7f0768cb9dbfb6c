/* SPDX-License-Identifier: MIT */
/* struct upgrade_converter, for convert.c and vectors.c only. */
#ifndef TW_JOBS_UPGRADE_CONVERTER_H
#define TW_JOBS_UPGRADE_CONVERTER_H

#include "jobs/engine/selector.h"
#include "jobs/upgrade/steps.h"
#include "worker/base/arena.h"

struct upgrade_converter {
    struct upgrade_how how;
    struct arena arena; /* memory of the selection */
    struct selection selection;
};

#endif
