/* What ThreadSanitizer has to know of the standard library's waits, which were not built for it. ci/sanitizers.sh gives the names.
 * A lock that is free is taken by code that is built with the tests; one that is not, and a condition, by calls into the library. */
#include <stdbool.h>
#include <stdint.h>

void __tsan_acquire(void *);
void __tsan_release(void *);

extern void real_lock(void *) __asm__(REAL LOCK);
void lock(void *mutex) __asm__(WRAP LOCK);
void lock(void *mutex) {
    real_lock(mutex);
    __tsan_acquire(mutex);
}

extern void real_wait(void *, void *) __asm__(REAL WAIT);
void wait_(void *condition, void *mutex) __asm__(WRAP WAIT);
void wait_(void *condition, void *mutex) {
    __tsan_release(mutex);
    real_wait(condition, mutex);
    __tsan_acquire(mutex);
}

extern bool real_wait_timeout(void *, void *, uint64_t, uint32_t) __asm__(REAL WAIT_TIMEOUT);
bool wait_timeout(void *condition, void *mutex, uint64_t seconds, uint32_t nanoseconds) __asm__(WRAP WAIT_TIMEOUT);
bool wait_timeout(void *condition, void *mutex, uint64_t seconds, uint32_t nanoseconds) {
    __tsan_release(mutex);
    bool result = real_wait_timeout(condition, mutex, seconds, nanoseconds);
    __tsan_acquire(mutex);
    return result;
}

/* A scope waits for its threads by a count, which each of them lets go of in the library. */
extern void real_end_scoped(void *, bool) __asm__(REAL END_SCOPED);
void end_scoped(void **scope, bool panicked) __asm__(WRAP END_SCOPED);
void end_scoped(void **scope, bool panicked) {
    /* Count, thread and flag, in some order. */
    for (int word = 0; word < 3; word++) __tsan_release(scope + word);
    real_end_scoped(scope, panicked);
}
