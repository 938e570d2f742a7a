/* Preloaded, it shifts a program's wall clock by what a file says (ns, as an int64), at once.
 *
 * Clocks that only count, such as CLOCK_MONOTONIC, stay as they are. Waits that end at a time of the
 * wall clock end at that time of the shifted one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t no_shift = 0;
static const volatile int64_t *shift_ns = &no_shift;

__attribute__((constructor)) static void find_shift(void) {
  const char *path = getenv("STEPPING_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (page != MAP_FAILED) shift_ns = page;
}

static struct timespec shifted(struct timespec time, int64_t by_ns) {
  int64_t ns = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec + by_ns;
  return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int failed = real(clock, time);
  if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    *time = shifted(*time, *shift_ns);
  return failed;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  (void)zone;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  *time = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return 0;
}

time_t time(time_t *seconds) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (seconds) *seconds = now.tv_sec;
  return now.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict end) {
  static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
  if (!real) real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  /* Which clock a condition has is not told; ends long before now are of the one that counts. */
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (end->tv_sec < now.tv_sec / 2) return real(condition, mutex, end);
  struct timespec true_end = shifted(*end, -*shift_ns);
  return real(condition, mutex, &true_end);
}
