/* SPDX-License-Identifier: MIT */
/*
 * Model of what `finish` closes (rule A5): after a run of a copy was ended by
 * `finish`, no run copies between these tables, and its job has no further run,
 * until somebody opens them again. Each guard can be removed with -DNO_...;
 * tests/model/guards lists the guards and what goes wrong without each.
 *
 *   Run     a run of one of two jobs, requested at any moment (a message may be
 *           late, a job renamed): attempts one after another. Each reads its
 *           job's destination, takes the lock, checks whether the destination
 *           is closed, writes, and may die before any request. A run ends by
 *           itself (succeeded, failed, cancelled) or by `finish`
 *   Person  an operator: `run JOB --reopen`, which may die between its
 *           requests, and edits of a job's destination
 *   Net     carries out a request that was given up, at any moment
 *
 * Modelled: the `closed!` row of a pair of tables and a job, the row of the end
 * that it names, the `!closed` row of a job. All jobs copy from one table. Of
 * an ETag the model knows only whether it is still the present one. What a run
 * has closed may be opened once its requests can no longer be late.
 *
 * Not modelled: leases (lease.pml: attempts of a run never overlap, and a late
 * write of a run's end is refused), several locks in one batch (locks.pml),
 * what a copy does (copy.pml), several destinations, two names of one account,
 * and the check of `!closed` before the locks, which only saves a wait.
 *
 * EDITS: if the destination of a run is edited after an attempt has closed the
 * former destination and before the run ends by `finish`, the run closes the
 * former one too. So only_finish_closes is not judged with edits.
 */

#ifndef RUNS
#define RUNS 3
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 1 /* attempts in all, without the first of each run */
#endif
#ifndef REOPENS
#define REOPENS 1
#endif
#ifndef EDITS
#define EDITS 0
#endif
#ifndef FAULTS
#define FAULTS 1 /* number of late requests */
#endif

#define JOBS 2
/* The destinations: two tables, and the table of the sources (index rows). */
#define INDEX 2
#define TABLES 3
#ifndef FIRST
#define FIRST 0 /* the destination of both jobs before any edit */
#endif

#define CLOSE 1
#define OPEN_NAME 2
#define OPEN_TABLES 3

/* The properties; an assertion names the one that is violated. */
bool finished_is_left = 1, finished_job_rests = 1, only_finish_closes = 1;
#define CHECK(property, holds) property = (holds); assert(property)

/* The configuration: the destination of each job. For each run: its job, and
 * the destination of its attempt. */
byte to[JOBS], job_of[RUNS + 1], table_of[RUNS + 1];

/* The ledger: the open runs; the `!closed` row of a job; the row of a run's end
 * by `finish`; the `closed!` rows, as the run that wrote them. 0: there is
 * none. */
bool run_open[RUNS + 1], name_row[JOBS], end_row[RUNS + 1];
byte came, lock[TABLES];
#define ROW(t, j) ((t) * JOBS + (j))
byte row_run[TABLES * JOBS];

/* The ETags that a run or the operator has read: are they still the present
 * ones? */
bool row_etag[RUNS + 1], name_etag[RUNS + 1], person_name_etag,
    person_etag[JOBS];
byte person_job, person_table;

/* One late request. late_who: the run that writes the row or, of an opening,
 * the run whose finish the operator has seen. */
byte late_kind, late_table, late_job, late_who;
bool late_known, late_etag, late_etags[JOBS], late_rows[JOBS];

byte attempts = ATTEMPTS, reopens = REOPENS, edits = EDITS, faults = FAULTS;

/* The oracle: for each table and each job, the run that has finished it, until
 * somebody who has seen this opens it again. */
byte finished[TABLES], finished_job[JOBS];

/* ---- the rows ---- */

inline row_changed(t, j)
{
    for (n : 1 .. RUNS) {
        if
        :: table_of[n] == t && job_of[n] == j -> row_etag[n] = 0
        :: else
        fi
    }
    n = 0;
    if
    :: person_table == t -> person_etag[j] = 0
    :: else
    fi;
    if
    :: late_kind == CLOSE && late_table == t && late_job == j -> late_etag = 0
    :: late_kind == OPEN_TABLES && late_table == t -> late_etags[j] = 0
    :: else
    fi
}

inline name_changed(j)
{
    for (n : 1 .. RUNS) {
        if
        :: job_of[n] == j -> name_etag[n] = 0
        :: else
        fi
    }
    n = 0;
    if
    :: person_job == j -> person_name_etag = 0
    :: else
    fi;
    if
    :: late_kind == OPEN_NAME && late_job == j -> late_etag = 0
    :: else
    fi
}

/* An insert requires that there is no row, a replace that the row is the one
 * that was read. */
#ifdef NO_CLOSE_ETAG
#define MAY_CLOSE(t, j, known, etag) 1
#else
#define MAY_CLOSE(t, j, known, etag)                                           \
    ((known && etag) || (!(known) && row_run[ROW(t, j)] == 0))
#endif
#ifdef NO_OPEN_ETAG
#define MAY_OPEN(etag) 1
#else
#define MAY_OPEN(etag) (etag)
#endif

inline land_close(t, j, who, known, etag)
{
    done = MAY_CLOSE(t, j, known, etag);
    if
    :: done ->
        row_run[ROW(t, j)] = who;
        row_changed(t, j)
    :: else
    fi
}

inline land_open_name(j, who, etag)
{
    done = name_row[j] && MAY_OPEN(etag);
    if
    :: done ->
        name_row[j] = 0;
        name_changed(j);
        if
        :: finished_job[j] == who -> finished_job[j] = 0
        :: else
        fi
    :: else
    fi
}

inline delete_row(t, j)
{
    row_run[ROW(t, j)] = 0;
    row_changed(t, j)
}

/* MAY_DELETE: an opening deletes all rows that count, in one batch, or none. */
#define MAY_DELETE(t, j, is_there, etag)                                       \
    (!(is_there) || (row_run[ROW(t, j)] != 0 && MAY_OPEN(etag)))

inline land_open_tables(t, who, first, second, first_etag, second_etag)
{
    done = MAY_DELETE(t, 0, first, first_etag) &&
           MAY_DELETE(t, 1, second, second_etag);
    if
    :: done ->
        if
        :: first -> delete_row(t, 0)
        :: else
        fi;
        if
        :: second -> delete_row(t, 1)
        :: else
        fi;
        if
        :: finished[t] == who -> finished[t] = 0
        :: else
        fi
    :: else
    fi
}

/* COUNTS: was the end of the run that a row names written? */
#if defined(NO_END)
#define COUNTS(who) ((who) != 0)
#elif defined(NO_REQUESTED_AT) /* two runs of a job may have the same id */
#define IS_END(n, who) (end_row[n] && job_of[n] == job_of[who])
#define COUNTS(who)                                                            \
    ((who) != 0 && (IS_END(1, who) || IS_END(2, who) || IS_END(RUNS, who)))
#else
#define COUNTS(who) ((who) != 0 && end_row[who])
#endif

/* ---- a run ---- */

#define MINE job_of[self]
#define AT table_of[self]

/* The attempt ends, by a crash or to wait for the next round; the run begins
 * another one. */
#define DIES                                                                   \
    if                                                                         \
    :: attempts > 0 ->                                                         \
        attempts--;                                                            \
        printf("the attempt of run %d ends\n", self);                          \
        goto begin                                                             \
    :: skip                                                                    \
    fi

inline take_lock()
{
#ifndef NO_LOCK
    lock[AT] == 0 || lock[AT] == self || !run_open[lock[AT]];
    for (n : 0 .. TABLES - 1) {
        if
        :: lock[n] == self -> lock[n] = 0
        :: else
        fi
    }
    n = 0;
    lock[AT] = self;
#endif
    former = finished_job[MINE]
}

#ifdef NO_OWN_CLOSED
#define IS_CLOSED(j) (j != MINE && COUNTS(row_run[ROW(AT, j)]))
#else
#define IS_CLOSED(j) COUNTS(row_run[ROW(AT, j)])
#endif

inline read_tables()
{
    refused = AT != INDEX && (IS_CLOSED(0) || IS_CLOSED(1));
    CHECK(only_finish_closes, EDITS > 0 || !refused || finished[AT] != 0)
}

inline read_name()
{
    refused = name_row[MINE];
    CHECK(only_finish_closes, !refused || finished_job[MINE] != 0)
}

proctype Run(byte self)
{
    byte n, former;
    bool done, known, refused, looked;

    atomic {
        came == self - 1;
        came++;
        if
        :: MINE = 0
        :: self > 1 -> MINE = 1 /* the jobs are alike: the first run is
                                   always of job 0 */
        fi;
        run_open[self] = 1;
        printf("run %d of job %d comes\n", self, MINE)
    }

begin:
    atomic {
        known = 0;
        done = 0;
        row_etag[self] = 0;
        name_etag[self] = 0;
        former = 0;
        AT = to[MINE];
#ifdef NO_LOOK_AFTER_LOCKS
        read_tables();
        if
        :: refused -> goto ends
        :: else
        fi
    }
    atomic {
#endif
#ifdef NO_NAME_AFTER_LOCKS
        read_name();
        if
        :: refused -> goto ends
        :: else
        fi
    }
    atomic {
#endif
        take_lock();
        printf("run %d: attempt, to table %d\n", self, AT)
    }
#ifdef NO_LOOK_AT_EACH_ATTEMPT
    if
    :: looked -> goto works
    :: else -> looked = 1
    fi;
#endif
#ifndef NO_LOOK_AFTER_LOCKS
    atomic {
        read_tables();
        if
        :: refused -> goto ends
        :: else
        fi
    }
#endif
#ifndef NO_NAME_AFTER_LOCKS
    atomic {
        read_name();
        if
        :: refused -> goto ends
        :: else
        fi
    }
#endif

works:
    atomic {
        CHECK(finished_is_left, finished[AT] == 0);
        CHECK(finished_job_rests, former == 0 || finished_job[MINE] != former);
        printf("run %d writes table %d\n", self, AT);
        if
        :: goto works
        :: goto ends
        :: attempts > 0 -> attempts--; goto begin /* waits for the next round */
        :: printf("run %d is to finish\n", self)
        fi
    }

#ifdef NO_ROWS_BEFORE_THE_END
    goto end;
#endif
close: /* closes the pair of tables */
#ifdef NO_TABLES_CLOSED
    goto end;
#endif
    if
    :: AT == INDEX -> goto end
    :: else
    fi;
    atomic {
        known = row_run[ROW(AT, MINE)] != 0;
        row_etag[self] = known
    }
    atomic {
        DIES;
        if
        :: land_close(AT, MINE, self, known, row_etag[self])
        :: faults > 0 && late_kind == 0 ->
            faults--;
            late_kind = CLOSE;
            late_table = AT;
            late_job = MINE;
            late_who = self;
            late_known = known;
            late_etag = row_etag[self];
            done = 0
        fi;
        printf("run %d closes table %d: %d late %d\n", self, AT, done,
            late_kind);
        known = 0;
        row_etag[self] = 0;
        if
        :: done -> done = 0
        :: else -> goto close
        fi
    }
#ifdef NO_ROWS_BEFORE_THE_END
    goto over;
#endif

end: /* closes the job, in the batch of the run's end */
    atomic {
        known = name_row[MINE];
        name_etag[self] = known
    }
    atomic {
        DIES;
        if
        :: !known && name_row[MINE] -> goto end
#ifndef NO_NAME_WRITTEN_AGAIN
        :: known && !name_etag[self] -> goto end
#endif
        :: else
        fi;
        run_open[self] = 0;
        finished_job[MINE] = self;
        if
        :: AT != INDEX -> finished[AT] = self
        :: else
        fi;
        printf("run %d has ended by finish\n", self)
#ifdef NO_ONE_BATCH
    }
    if
    :: attempts > 0 -> attempts--; goto over
    :: skip
    fi;
    atomic {
#else
        ;
#endif
        end_row[self] = 1;
        if
#ifdef NO_NAME_WRITTEN_AGAIN
        :: known
#endif
        :: else
#ifndef NO_JOB_CLOSED
            ->
            name_row[MINE] = 1;
            name_changed(MINE)
#endif
        fi
    }
#ifdef NO_ROWS_BEFORE_THE_END
    if
    :: attempts > 0 -> attempts--; goto over
    :: goto close
    fi;
#endif
    goto over;

ends:
    atomic {
        run_open[self] = 0;
        printf("run %d has ended, refused %d\n", self, refused)
    }
over:
    atomic {
        known = 0;
        refused = 0;
        former = 0;
        name_etag[self] = 0;
        lock[AT] = (lock[AT] == self -> 0 : lock[AT]);
        AT = 0
    }
}

/* ---- around it ---- */

proctype Person()
{
    byte n, who;
    bool done, counted[JOBS];

end_idle:
    do
    :: atomic {
           edits > 0 ->
           edits--;
           if
           :: n = 0
           :: n = 1
           fi;
           if
           :: to[n] = (to[n] == 0 -> 1 : 0)
           :: FIRST == INDEX -> to[n] = INDEX
           fi;
           printf("job %d is edited: to table %d\n", n, to[n]);
           n = 0
       }
    :: atomic {
           reopens > 0 ->
           reopens--;
           if
           :: person_job = 0
           :: person_job = 1
           fi;
           person_table = to[person_job];
           printf("a person opens job %d and table %d\n", person_job,
               person_table);
           if
           :: !name_row[person_job] -> goto tables
           :: else
           fi;
           person_name_etag = 1;
           who = finished_job[person_job]
       }
       atomic {
           if
           :: land_open_name(person_job, who, person_name_etag)
           :: faults > 0 && late_kind == 0 -> /* the command dies, and this
                                                 request is late */
               faults--;
               late_kind = OPEN_NAME;
               late_job = person_job;
               late_who = who;
               late_etag = person_name_etag;
               done = 0
           fi;
           printf("the name is opened: %d late %d\n", done, late_kind);
           person_name_etag = 0;
           who = 0;
           if
           :: done -> done = 0
           :: else -> goto opened
           fi
       }
tables:
       if
       :: person_table == INDEX -> goto opened
       :: else
       fi;
       atomic {
           late_kind != CLOSE;
           for (n : 0 .. JOBS - 1) {
               counted[n] = COUNTS(row_run[ROW(person_table, n)]);
               who = (counted[n] &&
                       row_run[ROW(person_table, n)] == finished[person_table] ->
                   finished[person_table] : who);
#ifdef NO_COUNTED_ONLY
               counted[n] = row_run[ROW(person_table, n)] != 0;
#endif
#ifdef NO_ROWS_OF_OTHERS
               counted[n] = counted[n] && n == person_job;
#endif
               person_etag[n] = counted[n]
           }
           n = 0
       }
       atomic {
           if
           :: land_open_tables(person_table, who, counted[0], counted[1],
                  person_etag[0], person_etag[1])
           :: faults > 0 && late_kind == 0 && (counted[0] || counted[1]) ->
               faults--;
               late_kind = OPEN_TABLES;
               late_table = person_table;
               late_who = who;
               for (n : 0 .. JOBS - 1) {
                   late_rows[n] = counted[n];
                   late_etags[n] = person_etag[n]
               }
               n = 0;
               done = 1 /* the command dies, and this request is late */
           fi;
           printf("table %d is opened: %d late %d\n", person_table, done,
               late_kind);
#ifdef NO_END_STAYS
           for (n : 1 .. RUNS) {
               end_row[n] = (job_of[n] == person_job -> 0 : end_row[n])
           }
           n = 0;
#endif
#ifdef NO_PRESENT_TABLES
           delete_row(0, person_job);
           delete_row(1, person_job);
#endif
           for (n : 0 .. JOBS - 1) {
               counted[n] = 0;
               person_etag[n] = 0
           }
           n = 0;
           who = 0;
           if
           :: done -> done = 0
           :: else -> goto tables
           fi
       }
opened:
       atomic {
           person_job = 0;
           person_table = 0
       }
    od
}

active proctype Net()
{
    byte n;
    bool done;

end_idle:
    do
    :: atomic {
           late_kind != 0 ->
           printf("late: kind %d of %d lands\n", late_kind, late_who);
           if
           :: late_kind == CLOSE ->
               land_close(late_table, late_job, late_who, late_known,
                   late_etag)
           :: late_kind == OPEN_NAME ->
               land_open_name(late_job, late_who, late_etag)
           :: late_kind == OPEN_TABLES ->
               land_open_tables(late_table, late_who, late_rows[0], late_rows[1],
                   late_etags[0], late_etags[1])
           fi;
           late_kind = 0;
           late_table = 0;
           late_job = 0;
           late_who = 0;
             late_known = 0;
           late_etag = 0;
           late_rows[0] = 0;
           late_rows[1] = 0;
           late_etags[0] = 0;
           late_etags[1] = 0;
           done = 0
       }
    od
}

init {
    byte n;

    atomic {
        to[0] = FIRST;
        to[1] = FIRST;
        for (n : 1 .. RUNS) {
            run Run(n)
        }
        n = 0;
        run Person()
    }
}
