/* Time of an empty parallel region of two libgomp threads after gaps in which the caller computes.
 *
 * Arguments: GAP_MICROSECONDS:REGIONS ... Prints one line for each: the gap, then nanoseconds, parted by tabs. */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WARM_UP = 20 };
static const int64_t LONGEST = 1000000000; /* nanoseconds */

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static volatile uint64_t sink;

static void compute_for(int64_t gap) {
  if (gap == 0) return;
  int64_t start = now();
  while (now() - start < gap) {
    uint64_t x = sink;
    for (int i = 0; i < 20; i++) x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    sink = x;
  }
}

static int arrived;

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");
#endif
}

int main(int argc, char **argv) {
  omp_set_dynamic(0);
  omp_set_num_threads(2);
  int threads = 0;
#pragma omp parallel
  {
#pragma omp master
    threads = omp_get_num_threads();
  }
  if (threads != 2) {
    fprintf(stderr, "libgomp gives %d threads instead of 2\n", threads);
    return 1;
  }
  for (int a = 1; a < argc; a++) {
    long gap = 0, regions = 0;
    if (sscanf(argv[a], "%ld:%ld", &gap, &regions) != 2) return 2;
    printf("%ld", gap);
    int64_t began = now();
    for (long i = -WARM_UP; i < regions && now() - began < LONGEST; i++) {
      compute_for((int64_t)gap * 1000);
      arrived = 0;
      int64_t start = now();
#pragma omp parallel
      {
        /* A fork and a join of threads that run at once, as the other contestants' regions have it. */
        if (omp_get_thread_num() == 1)
          __atomic_store_n(&arrived, 1, __ATOMIC_RELEASE);
        else
          while (!__atomic_load_n(&arrived, __ATOMIC_ACQUIRE)) relax();
      }
      int64_t taken = now() - start;
      if (i >= 0) printf("\t%lld", (long long)taken);
    }
    printf("\n");
  }
  return 0;
}
