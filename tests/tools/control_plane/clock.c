/* Adds NODELESS_TESTS_CLOCK_SECONDS to the time of day. Clocks that only measure how long something takes stay as they are. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static time_t offset(void)
{
    const char *seconds = getenv("NODELESS_TESTS_CLOCK_SECONDS");
    return seconds ? (time_t)atol(seconds) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int (*original)(clockid_t, struct timespec *) = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = original(clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += offset();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    int (*original)(struct timeval *, void *) = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
    int failed = original(now, zone);
    if (!failed)
        now->tv_sec += offset();
    return failed;
}

time_t time(time_t *now)
{
    struct timespec moved;
    clock_gettime(CLOCK_REALTIME, &moved);
    if (now)
        *now = moved.tv_sec;
    return moved.tv_sec;
}
