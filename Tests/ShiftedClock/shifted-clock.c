// Preloaded into a program, this library steps its wall clock, as if a person or an empty battery
// had set the machine's clock, and lets time pass while the program runs, as a suspend does. The
// seconds are in a file that the test has mapped, too; they may change at any moment. The times of
// files are the kernel's, and stay as they are.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct shift {
    /// Seconds that are added to the wall clock, and those that the machine was suspended.
    _Atomic int64_t wall, suspended;
};

static struct shift none;
static struct shift *shift = &none;
static int (*clock_of_libc)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    clock_of_libc = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("CONCORD_SHIFTED_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *memory = mmap(NULL, sizeof(struct shift), PROT_READ, MAP_SHARED, file, 0);
    if (memory != MAP_FAILED) shift = memory;
    close(file);
}

int clock_gettime(clockid_t id, struct timespec *time) {
    // Other libraries may ask before this one is ready.
    if (!clock_of_libc) begin();
    int result = clock_of_libc(id, time);
    if (result != 0) return result;
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)
        time->tv_sec += shift->wall + shift->suspended;
    if (id == CLOCK_BOOTTIME) time->tv_sec += shift->suspended;
    return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    *time = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *seconds) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME_COARSE, &now) != 0) return -1;
    if (seconds) *seconds = now.tv_sec;
    return now.tv_sec;
}
