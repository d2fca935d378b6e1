/* Counts the system calls that write below one folder, and strikes at the n-th of them.
 *
 * Loaded with LD_PRELOAD; `endure_arm` begins to count in a process.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is done at the n-th call; writes.py has the same numbers. */
enum {
    COUNT,        /* nothing */
    KILL_BEFORE,  /* the process is killed before the call */
    KILL_HALFWAY, /* after half of the bytes */
    KILL_AFTER,   /* after the call */
    FULL,         /* from there on, no file grows */
    FULL_HALFWAY, /* likewise, after half of the bytes */
    FAIL_SYNC,    /* if it is an fsync, it fails */
    TRACE,        /* every call is written to a file, with its bytes; "-" is one that failed */
};

static char folder[4096];
static size_t folder_length;
static int how = COUNT, trace = -1;
static long at;
static atomic_long calls;

void endure_arm(const char *path, int what, long number, int descriptor)
{
    snprintf(folder, sizeof folder, "%s", path);
    folder_length = strlen(folder);
    how = what;
    at = number;
    trace = descriptor;
    atomic_store(&calls, 0);
}

static int is_below(const char *path)
{
    return folder_length && strncmp(path, folder, folder_length) == 0;
}

static int path_of(int descriptor, char *path, size_t size)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, size - 1);
    path[length < 0 ? 0 : length] = 0;
    return is_below(path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void die(void)
{
    kill(getpid(), SIGKILL);
    pause();
}

static void put(const void *bytes, size_t size)
{
    static ssize_t (*real)(int, const void *, size_t);
    if (!real)
        real = REAL(write);
    while (size) {
        ssize_t done = real(trace, bytes, size);
        if (done < 0)
            abort();
        bytes = (const char *)bytes + done, size -= done;
    }
}

static void note(char kind, const char *path, int64_t offset, const void *bytes, int64_t size)
{
    int64_t head[4] = {kind, (int64_t)strlen(path), offset, size};
    put(head, sizeof head);
    put(path, strlen(path));
    if (bytes)
        put(bytes, size);
}

void endure_note(int64_t number)
{
    if (how == TRACE)
        note('m', "", number, NULL, 0);
}

/* Count a call; return 1 if it is the one to strike at, 2 if it comes after it. */
static int count(void)
{
    long number = atomic_fetch_add(&calls, 1) + 1;
    if (number == at && how == KILL_BEFORE)
        die();
    return how == COUNT || how == TRACE ? 0 : number == at ? 1 : number > at ? 2 : 0;
}

static int grows(int descriptor, off_t end)
{
    struct stat status;
    return fstat(descriptor, &status) == 0 && end > status.st_size;
}

/* Write below the folder: offset -1 is wherever the descriptor stands. */
static ssize_t write_below(int descriptor, const char *path, const void *bytes, size_t size,
                           off_t offset)
{
    static ssize_t (*real)(int, const void *, size_t, off_t);
    if (!real)
        real = REAL(pwrite);
    off_t place = offset < 0 ? lseek(descriptor, 0, SEEK_CUR) : offset;
    int strike = count();
    int full = (how == FULL || how == FULL_HALFWAY) && strike && grows(descriptor, place + size);
    if ((strike == 1 && how == KILL_HALFWAY) || (strike == 1 && full && how == FULL_HALFWAY)) {
        ssize_t half = real(descriptor, bytes, size / 2, place);
        if (how == KILL_HALFWAY)
            die();
        if (half > 0) {
            if (offset < 0)
                lseek(descriptor, place + half, SEEK_SET);
            return half;
        }
    }
    if (full) {
        errno = ENOSPC;
        return -1;
    }
    ssize_t done = real(descriptor, bytes, size, place);
    if (done > 0 && offset < 0)
        lseek(descriptor, place + done, SEEK_SET);
    if (how == TRACE)
        note(done < 0 ? '-' : 'w', path, place, bytes, done < 0 ? 0 : done);
    if (strike == 1 && how == KILL_AFTER)
        die();
    return done;
}

ssize_t pwrite(int descriptor, const void *bytes, size_t size, off_t offset)
{
    char path[4096];
    if (!path_of(descriptor, path, sizeof path))
        return REAL(pwrite)(descriptor, bytes, size, offset);
    return write_below(descriptor, path, bytes, size, offset);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t size, off64_t offset)
{
    return pwrite(descriptor, bytes, size, offset);
}

ssize_t write(int descriptor, const void *bytes, size_t size)
{
    char path[4096];
    if (!path_of(descriptor, path, sizeof path))
        return REAL(write)(descriptor, bytes, size);
    return write_below(descriptor, path, bytes, size, -1);
}

/* A call that takes effect whole: `kind` is its letter in a trace. */
#define WHOLE(path, kind, offset, call)                                                            \
    do {                                                                                           \
        int strike = count();                                                                      \
        if (strike == 1 && how == FAIL_SYNC && kind == 's') {                                      \
            errno = EIO;                                                                           \
            return -1;                                                                             \
        }                                                                                          \
        int done = (call);                                                                         \
        if (how == TRACE)                                                                          \
            note(done < 0 ? '-' : kind, path, offset, NULL, 0);                                    \
        if (strike == 1 && (how == KILL_AFTER || how == KILL_HALFWAY))                             \
            die();                                                                                 \
        return done;                                                                               \
    } while (0)

#define SYNC(name)                                                                                 \
    int name(int descriptor)                                                                       \
    {                                                                                              \
        char path[4096];                                                                           \
        if (!path_of(descriptor, path, sizeof path))                                               \
            return REAL(name)(descriptor);                                                         \
        WHOLE(path, 's', 0, REAL(name)(descriptor));                                               \
    }

SYNC(fsync)
SYNC(fdatasync)

int ftruncate(int descriptor, off_t size)
{
    char path[4096];
    if (!path_of(descriptor, path, sizeof path))
        return REAL(ftruncate)(descriptor, size);
    WHOLE(path, 't', size, REAL(ftruncate)(descriptor, size));
}

int ftruncate64(int descriptor, off64_t size) { return ftruncate(descriptor, size); }

int unlink(const char *path)
{
    if (!is_below(path))
        return REAL(unlink)(path);
    WHOLE(path, 'u', 0, REAL(unlink)(path));
}

int rename(const char *path, const char *new_path)
{
    if (!is_below(new_path))
        return REAL(rename)(path, new_path);
    char both[8192];
    snprintf(both, sizeof both, "%s\n%s", path, new_path);
    WHOLE(both, 'r', 0, REAL(rename)(path, new_path));
}
