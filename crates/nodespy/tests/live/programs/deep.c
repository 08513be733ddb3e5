// Right answer: everything runs below 60 frames of descend, of which each takes a few hundred bytes of the stack, in main.

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

static int order(const void *left, const void *right) {
  return *(const int *)left - *(const int *)right;
}

__attribute__((noinline)) static int leaf(void) {
  int numbers[200];
  for (int at = 0; at < 200; at++) numbers[at] = rand();
  qsort(numbers, 200, sizeof *numbers, order);
  return numbers[7];
}

__attribute__((noinline)) static int descend(int depth) {
  volatile char room[300];
  room[depth] = depth;
  return (depth == 0 ? leaf() : descend(depth - 1)) + room[depth];
}

int main(void) {
  volatile int sum = 0;
  // A child of a program that is killed ends with it.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  puts("ready");
  fflush(stdout);
  for (long turn = 0; turn < 1000000000L; turn++) sum += descend(59);
  return sum;
}
