/* Included by the files of a server that mutants/sweep has instrumented. */
#ifndef MUTANT_SWITCH_H
#define MUTANT_SWITCH_H

/* The bug that is switched on, or 0; $MUTANT of the postmaster's environment. */
extern PGDLLEXPORT int mutant_on;

/* Which points have been reached: a file that all processes share, $MUTANTS_REACHED. */
extern PGDLLEXPORT unsigned char *mutants_reached;

#define MUTANT(number) (mutants_reached[number] = 1, unlikely(mutant_on == (number)))

#endif
