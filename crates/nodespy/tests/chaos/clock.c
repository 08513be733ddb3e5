/* For LD_PRELOAD: the time of day goes an hour forward or back every 200 ms. The machine's clock is left alone. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && clock == CLOCK_REALTIME && time->tv_nsec / 200000000 % 2 == 1) {
        time->tv_sec += time->tv_sec % 2 == 0 ? 3600 : -3600;
    }
    return result;
}
