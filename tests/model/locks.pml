/* SPDX-License-Identifier: MIT */
/*
 * Model of the locks of jobs that write tables (rules L1 to L3): a run takes
 * all its locks in one batch; runs wait for their turn, the older first; open
 * runs that wait keep their locks; failed runs are retried; ended and pruned
 * runs may leave locks. Each guard can be removed with -DNO_...;
 * tests/model/guards lists the guards and what goes wrong without each.
 *
 *   Run    a run of one of three jobs: it is requested, waits for its turn,
 *          takes its locks, works, may wait in the middle (paused, held,
 *          between rounds), ends, and frees its locks or crashes before. A
 *          failed run may be retried, an ended run pruned; then another run of
 *          its job is requested
 *   Judge  acts when nothing can happen any more: then no run may be waiting
 *
 * Modelled: reading the locks and the runs that have them, the batch with the
 * ETags that were read, freeing the locks after the end. A lock names a run. Of
 * an ETag the model knows only whether it is still the present one.
 *
 * Not modelled: leases (lease.pml), requests with an indeterminate outcome (the
 * ledger resolves them by reading), what a run does with its tables (move.pml,
 * copy.pml), whether an operator resumes or cancels a paused run: one of these
 * happens.
 */

#ifndef COMES
#define COMES 3 /* number of runs in all */
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef RETRIES
#define RETRIES 1
#endif
#ifndef WAITS
#define WAITS 1
#endif

#define JOBS 3
#define TABLES 2
/* Two jobs write both tables, and name them in different orders; the third
 * writes only the second table. */
#define WRITES(j, t) ((j) < 2 || (t) == 1)
#define FIRST(j) ((j) == 0 -> 0 : 1)
#define SECOND(j) ((j) == 0 -> 1 : 0)
#define COUNT(j) ((j) < 2 -> 2 : 1)

#define GONE 0 /* not in the ledger yet, or pruned */
#define TURN 1 /* waits for its turn */
#define WORKS 2
#define RESTS 3 /* paused, held, between rounds */
#define ENDED 4
#define FAILED 5

#define IS_OPEN(s) ((s) == WORKS || (s) == RESTS)

/* The properties; an assertion names the one that is violated. */
bool one_at_a_time = 1, no_deadlock = 1, nobody_starves = 1;
#define CHECK(property, holds) property = (holds); assert(property)

/* The ledger: the newest run of each job, and its number. */
byte state[JOBS], number[JOBS];
bool older[JOBS * JOBS]; /* of two waiting runs: the first waits for longer than
                            the second */
byte overtaken[JOBS];

/* The locks: 1 + the job, and the number of the run; 0: free. seen: is the ETag
 * that the job's run has read still the present one? */
byte lock[TABLES], lock_number[TABLES];
bool seen[JOBS * TABLES];

byte comes = COMES, crashes = CRASHES, retries = RETRIES, waits = WAITS;

inline lock_changed(t)
{
    for (n : 0 .. JOBS - 1) {
        seen[n * TABLES + t] = 0
    }
    n = 0
}

/* Rule L1: is the lock t free? */
#define IS_NEWEST(t) (number[lock[t] - 1] == lock_number[t])
#ifdef NO_ENDED_IS_FREE
#define HAS_ENDED(t) 0
#else
#define HAS_ENDED(t)                                                           \
    (IS_NEWEST(t) &&                                                           \
        (state[lock[t] - 1] == ENDED || state[lock[t] - 1] == FAILED))
#endif
#ifdef NO_PRUNED_IS_FREE
#define IS_PRUNED(t) 0
#else
#define IS_PRUNED(t) (!IS_NEWEST(t) || state[lock[t] - 1] == GONE)
#endif
/* A run that waits for its turn has no locks: a lock with its name was left
 * over. */
#define WAITS_FOR_TURN(t) (IS_NEWEST(t) && state[lock[t] - 1] == TURN)
#ifdef NO_BATCH
#define IS_FREE(t)                                                             \
    (lock[t] == 0 || (lock[t] == 1 + self && IS_NEWEST(t)) || HAS_ENDED(t) ||  \
        IS_PRUNED(t))
#else
#define IS_FREE(t)                                                             \
    (lock[t] == 0 || HAS_ENDED(t) || IS_PRUNED(t) || WAITS_FOR_TURN(t))
#endif
#ifdef NO_LOCK_ETAG
#define MAY_TAKE(t) 1
#else
#define MAY_TAKE(t) seen[self * TABLES + (t)]
#endif

/* A run that finds a lock with its own name writes it again. */
#ifdef NO_OWN_AGAIN
#define WRITES_LOCK(t)                                                         \
    (WRITES(self, t) &&                                                        \
        (lock[t] != 1 + self || lock_number[t] != number[self]))
#else
#define WRITES_LOCK(t) WRITES(self, t)
#endif

#define SHARE(a, b, t) (WRITES(a, t) && WRITES(b, t))
#define IS_BEHIND(q)                                                           \
    (q != self && state[q] == TURN && older[(q) * JOBS + self])

#define BLOCKS(q) (IS_BEHIND(q) && (SHARE(self, q, 0) || SHARE(self, q, 1)))
#ifdef NO_OLDER_FIRST
#define IS_NEXT 1
#else
#define IS_NEXT (!BLOCKS(0) && !BLOCKS(1) && !BLOCKS(2))
#endif
#define IS_FREE_FOR_ME                                                         \
    ((!WRITES(self, 0) || IS_FREE(0)) && (!WRITES(self, 1) || IS_FREE(1)))
#define MAY_TRY (IS_FREE_FOR_ME && IS_NEXT)

inline take(t)
{
    lock[t] = 1 + self;
    lock_number[t] = number[self];
    lock_changed(t)
}

inline begin_to_wait()
{
    for (n : 0 .. JOBS - 1) {
        older[n * JOBS + self] = n != self && state[n] == TURN;
        older[self * JOBS + n] = 0
    }
    n = 0;
    state[self] = TURN
}

/* The run begins to work: no other run on its tables may be open. */
inline begin_to_work()
{
    d_step {
        state[self] = WORKS;
        for (n : 0 .. JOBS - 1) {
            older[self * JOBS + n] = 0;
            CHECK(one_at_a_time, n == self || !IS_OPEN(state[n]) ||
                !(SHARE(self, n, 0) || SHARE(self, n, 1)));
            if
            :: IS_BEHIND(n) && (SHARE(self, n, 0) || SHARE(self, n, 1)) ->
                overtaken[n]++
#ifndef NO_BATCH
                ;
                CHECK(nobody_starves, overtaken[n] < 2)
#endif
            :: else
            fi
        }
        n = 0;
        overtaken[self] = 0;
        printf("the run of job %d works\n", self)
    }
}

proctype Run(byte self)
{
    byte n, t;
    bool blocked;

end_idle:
    do
    :: atomic {
           comes > 0 ->
           comes--;
           number[self]++;
           begin_to_wait();
           printf("a run of job %d comes\n", self)
       }
turn:  /* it reads its locks and the runs that they name, then the runs that
          wait */
       atomic {
           blocked = !(IS_FREE_FOR_ME);
           for (t : 0 .. TABLES - 1) {
               seen[self * TABLES + t] = WRITES(self, t)
           }
           t = 0
       }
       blocked = blocked || !(IS_NEXT);
#ifdef NO_BATCH
       /* The locks one by one, each in its own request. */
       t = 0;
       do
       :: t < COUNT(self) ->
           atomic {
               n = (t == 0 -> FIRST(self) : SECOND(self));
               IS_FREE(n);
               if
               :: n == 0 -> take(0)
               :: else -> take(1)
               fi;
               printf("the run of job %d takes lock %d\n", self, t);
               n = 0;
               t++
           }
       :: else -> break
       od;
       t = 0;
#else
       if
       :: blocked ->
           /* waits until something has changed, then reads again */
           atomic {
               MAY_TRY ->
               goto turn
           }
       :: else
       fi;
       atomic { /* takes the locks in one batch */
           if
           :: (!WRITES_LOCK(0) || MAY_TAKE(0)) &&
                  (!WRITES_LOCK(1) || MAY_TAKE(1)) ->
               for (t : 0 .. TABLES - 1) {
                   if
                   :: WRITES_LOCK(t) -> take(t)
                   :: else
                   fi
               }
               t = 0
           :: else -> goto turn
           fi;
           begin_to_work()
       }
#endif
#ifdef NO_BATCH
       atomic { begin_to_work() }
#endif

works:
       if
       :: atomic {
              waits > 0 ->
              waits--;
              state[self] = RESTS;
              printf("the run of job %d rests\n", self);
#ifdef NO_KEEPING
              for (t : 0 .. TABLES - 1) {
                  if
                  :: lock[t] == 1 + self -> lock[t] = 0; lock_changed(t)
                  :: else
                  fi
              }
              t = 0
#endif
          }
          if
          :: atomic { /* resume */
                 begin_to_work();
                 goto works
             }
          :: atomic { state[self] = ENDED } /* cancel */
          fi
       :: atomic { state[self] = ENDED; printf("the run of job %d ends\n", self) }
       :: atomic {
              state[self] = FAILED;
              printf("the run of job %d fails\n", self)
          }
       fi;

       /* Its locks are freed after the end. */
       do
       :: t == TABLES -> t = 0; break
       :: t < TABLES && WRITES(self, t) ->
           atomic {
               if
               :: crashes > 0 ->
                   crashes--;
                   printf("the attempt of job %d crashes\n", self);
                   t = 0;
                   break
               :: skip
               fi;
               if
#ifdef NO_OWN_NAME
               :: lock[t] != 0 ->
#else
               :: lock[t] == 1 + self && IS_NEWEST(t) ->
#endif
                   lock[t] = 0;
                   lock_number[t] = 0;
                   lock_changed(t);
                   printf("the lock %d is freed by job %d\n", t, self)
               :: else
               fi;
               t++
           }
       :: else -> t++
       od;
       if
       :: atomic {
              state[self] == FAILED && retries > 0 ->
              retries--;
              begin_to_wait();
              printf("the run of job %d is retried\n", self);
              goto turn
          }
       :: atomic { state[self] = GONE; printf("the run of job %d is pruned\n", self) }
       :: skip
       fi
    od
}

active proctype Judge()
{
end_judge:
    timeout -> CHECK(no_deadlock,
        state[0] != TURN && state[1] != TURN && state[2] != TURN)
}

init {
    atomic {
        run Run(0);
        run Run(1);
        run Run(2)
    }
}
