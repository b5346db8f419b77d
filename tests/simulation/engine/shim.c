/* Faults in the system calls of one process, and a trace of what it did to its files.

   Loaded by LD_PRELOAD, so that Python, SQLite, delta-rs and pyarrow all meet the same disk. Only paths below the root
   given to sim_begin are touched. Every operation is counted; an operation can be refused (EIO), torn, reported as failed
   although it was done, refused for want of space (ENOSPC), or be the last one before the process is dead: from then on
   nothing below the root changes any more. Syncs are not handed to the kernel; they are traced, and what a power cut
   leaves is computed from the trace (power.py). */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS 65536
#define PATHS 1024
#define LONG (2 * PATHS)
enum { T_CREATE = 1, T_WRITE, T_TRUNCATE, T_SYNC, T_SYNC_LOST, T_SYNC_DIR, T_RENAME, T_LINK, T_UNLINK, T_MKDIR, T_RMDIR };
enum { C_CREATE, C_WRITE, C_TRUNCATE, C_SYNC, C_SYNC_DIR, C_RENAME, C_LINK, C_UNLINK, C_MKDIR, C_RMDIR, C_OPEN, C_READ, CLASSES };
enum { F_NONE, F_REFUSED, F_TORN, F_LATE, F_FULL, F_KILL, F_DEAD, FAULTS };

struct entry { char path[LONG]; uint64_t dev, ino; int flags; int is_dir; };
struct range { uint64_t ino, offset, length; int lost; };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct entry *fds[FDS];
static char root[PATHS];
static size_t root_length;
static int paused = 1, dead, full, kill_on = -1;
static uint64_t operations, kill_at, seed = 88172645463325252ull, read_seed = 1;
static uint32_t rates[CLASSES][FAULTS]; /* of 65536 */
static uint64_t done[CLASSES], broken[CLASSES][FAULTS];
static struct { uint64_t at; int fault; } armed[64];
static unsigned char *trace;
static size_t trace_length, trace_room;
static struct range *ranges;
static size_t range_count, range_room;

#define REAL(name) ({ static __typeof__(&name) found; if (!found) found = (__typeof__(&name))real(#name); found; })
static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) { fprintf(stderr, "shim: no %s\n", name); abort(); }
    return found;
}

static void leave(int fd) {
    if (fd >= 0 && fd < FDS && fds[fd]) { free(fds[fd]); fds[fd] = NULL; }
}

/* --- control, called by Python --- */
void sim_begin(const char *path, uint64_t new_seed) {
    pthread_mutex_lock(&mutex);
    strncpy(root, path, PATHS - 1);
    root_length = strlen(root);
    paused = dead = full = 0;
    kill_at = 0;
    kill_on = -1;
    seed = new_seed * 2654435761u + 88172645463325252ull;
    read_seed = seed;
    trace_length = range_count = 0;
    for (int fd = 0; fd < FDS; fd++) leave(fd); /* what a life before has open goes past us */
    memset(rates, 0, sizeof rates);
    memset(armed, 0, sizeof armed);
    pthread_mutex_unlock(&mutex);
}
void sim_pause(int value) { paused = value; }
int sim_dead(void) { return dead; }
void sim_die(void) { dead = 1; }
void sim_full(int value) { full = value; }
void sim_kill_at(uint64_t nth) { kill_at = nth; if (!nth) kill_on = -1; }
void sim_kill_on(int class) { kill_on = class; }
void sim_rate(int class, int fault, uint32_t rate) { rates[class][fault] = rate; }
void sim_arm(uint64_t nth, int fault) {
    for (int i = 0; i < 64; i++) if (!armed[i].at) { armed[i].at = nth; armed[i].fault = fault; return; }
}
void sim_heal(void) { full = 0; memset(rates, 0, sizeof rates); memset(armed, 0, sizeof armed); }
uint64_t sim_operations(void) { return operations; }
uint64_t sim_done(int class) { return done[class]; }
uint64_t sim_broken(int class, int fault) { return broken[class][fault]; }
const unsigned char *sim_trace(uint64_t *length) { *length = trace_length; return trace; }

/* --- trace --- */
static void put(const void *data, size_t length) {
    if (trace_length + length > trace_room) {
        trace_room = (trace_length + length) * 2 + 65536;
        trace = realloc(trace, trace_room);
    }
    memcpy(trace + trace_length, data, length);
    trace_length += length;
}
static void record(uint8_t kind, uint64_t ino, uint64_t offset, const void *data, uint32_t size, const char *a, const char *b) {
    uint16_t la = a ? strlen(a) : 0, lb = b ? strlen(b) : 0;
    put(&kind, 1); put(&ino, 8); put(&offset, 8); put(&size, 4); put(&la, 2); put(&lb, 2);
    if (size) put(data, size);
    if (la) put(a, la);
    if (lb) put(b, lb);
}
static void dirty(uint64_t ino, uint64_t offset, uint64_t length) {
    if (range_count == range_room) {
        range_room = range_room * 2 + 256;
        ranges = realloc(ranges, range_room * sizeof *ranges);
    }
    ranges[range_count++] = (struct range){ino, offset, length, 0};
}
static void synced(uint64_t ino) {
    size_t kept = 0;
    for (size_t i = 0; i < range_count; i++)
        if (ranges[i].ino != ino || ranges[i].lost) ranges[kept++] = ranges[i];
    range_count = kept;
}
static void lost(uint64_t ino) {
    for (size_t i = 0; i < range_count; i++) if (ranges[i].ino == ino) ranges[i].lost = 1;
}

/* --- decisions --- */
static uint32_t next(uint64_t *state) {
    *state ^= *state << 13; *state ^= *state >> 7; *state ^= *state << 17;
    return (uint32_t)(*state >> 24);
}
static uint32_t chance(void) { return next(&seed); }
static int changes(int class) { return class != C_OPEN && class != C_READ; }
static int grows(int class) { return class == C_CREATE || class == C_WRITE || class == C_LINK || class == C_MKDIR; }
static int decide_read(int class) {
    /* With a chance of its own: how often delta-rs reads is not the same each time. */
    done[class]++;
    int fault = rates[class][F_REFUSED] && (next(&read_seed) & 65535) < rates[class][F_REFUSED] ? F_REFUSED : F_NONE;
    if (fault) broken[class][fault]++;
    return fault;
}
static int decide(int class) {
    if (!changes(class)) return dead ? F_NONE : decide_read(class);
    if (dead) return F_DEAD;
    operations++;
    done[class]++;
    int fault = F_NONE;
    if ((kill_at && operations >= kill_at) || class == kill_on) fault = F_KILL;
    for (int i = 0; !fault && i < 64; i++)
        if (armed[i].at && operations >= armed[i].at) {
            fault = armed[i].fault;
            armed[i].at = 0;
        }
    if (!fault && full && grows(class)) fault = F_FULL;
    for (int f = F_REFUSED; !fault && f <= F_LATE; f++)
        if (rates[class][f] && (chance() & 65535) < rates[class][f]) fault = f;
    if (fault) broken[class][fault]++;
    if (fault == F_KILL) { dead = 1; kill_at = 0; kill_on = -1; }
    return fault;
}
static int failure(int fault) { errno = fault == F_FULL ? ENOSPC : EIO; return -1; }

/* --- paths --- */
static struct entry *known(int fd) {
    /* A number alone says little: what closes a descriptor inside libc (close_range, fclose) is not seen here, and the
       number is soon that of an eventfd, a socket or a pipe. */
    if (fd < 0 || fd >= FDS || !fds[fd]) return NULL;
    int saved = errno;
    struct stat st;
    pthread_mutex_lock(&mutex);
    if (fds[fd] && (fstat(fd, &st) || st.st_dev != fds[fd]->dev || st.st_ino != fds[fd]->ino)) leave(fd);
    struct entry *entry = fds[fd];
    pthread_mutex_unlock(&mutex);
    errno = saved;
    return entry;
}
static struct entry *opened(int fd) { return paused ? NULL : known(fd); }
static int resolve(int dirfd, const char *path, char *out) {
    if (paused || !path) return 0;
    struct entry *parent = path[0] == '/' ? NULL : known(dirfd);
    if (path[0] == '/') snprintf(out, LONG, "%s", path);
    else if (parent) snprintf(out, LONG, "%s/%s", parent->path, path);
    else return 0;
    size_t length = strlen(out);
    while (length > 1 && out[length - 1] == '/') out[--length] = 0;
    return !strncmp(out, root, root_length) && (out[root_length] == '/' || !out[root_length]);
}
static void enter(int fd, const char *path, int flags) {
    struct stat st;
    if (fd < 0 || fd >= FDS || fstat(fd, &st)) return;
    struct entry *entry = fds[fd] ? fds[fd] : calloc(1, sizeof *entry);
    snprintf(entry->path, sizeof entry->path, "%s", path);
    entry->dev = st.st_dev;
    entry->ino = st.st_ino;
    entry->flags = flags;
    entry->is_dir = S_ISDIR(st.st_mode);
    fds[fd] = entry;
}

/* --- open and close --- */
static int open_at(int dirfd, const char *path, int flags, mode_t mode) {
    char full_path[LONG];
    __typeof__(&openat) call = REAL(openat);
    if (!resolve(dirfd, path, full_path)) {
        int fd = call(dirfd, path, flags, mode);
        if (!paused && fd >= 0) { pthread_mutex_lock(&mutex); leave(fd); pthread_mutex_unlock(&mutex); }
        return fd;
    }
    pthread_mutex_lock(&mutex);
    struct stat st;
    int exists = !stat(full_path, &st);
    int creates = (flags & O_CREAT) && !exists;
    int truncates = exists && (flags & O_TRUNC) && S_ISREG(st.st_mode);
    int fault = decide(creates ? C_CREATE : truncates ? C_TRUNCATE : C_OPEN);
    int fd = -1;
    if (fault == F_NONE || fault == F_LATE) {
        fd = call(dirfd, path, flags, mode);
        int saved = errno;
        if (fd >= 0) {
            enter(fd, full_path, flags);
            if (creates) record(T_CREATE, fds[fd]->ino, 0, NULL, 0, full_path, NULL);
            if (truncates) { record(T_TRUNCATE, fds[fd]->ino, 0, NULL, 0, full_path, NULL); }
        }
        errno = saved;
    }
    if (fault != F_NONE) {
        if (fd >= 0) { leave(fd); REAL(close)(fd); }
        fd = failure(fault);
    }
    pthread_mutex_unlock(&mutex);
    return fd;
}
#define MODE(last) mode_t mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { va_list args; va_start(args, last); mode = va_arg(args, mode_t); va_end(args); }
int open(const char *path, int flags, ...) { MODE(flags) return open_at(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return open_at(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int fd, const char *path, int flags, ...) { MODE(flags) return open_at(fd, path, flags, mode); }
int openat64(int fd, const char *path, int flags, ...) { MODE(flags) return open_at(fd, path, flags | O_LARGEFILE, mode); }
int __open_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
int __openat_2(int fd, const char *path, int flags) { return open_at(fd, path, flags, 0); }
int __openat64_2(int fd, const char *path, int flags) { return open_at(fd, path, flags, 0); }
int creat(const char *path, mode_t mode) { return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int close(int fd) {
    if (fd >= 0 && fd < FDS && fds[fd]) { pthread_mutex_lock(&mutex); leave(fd); pthread_mutex_unlock(&mutex); }
    return REAL(close)(fd);
}
int closedir(DIR *directory) {
    int fd = dirfd(directory);
    pthread_mutex_lock(&mutex);
    leave(fd);
    pthread_mutex_unlock(&mutex);
    return REAL(closedir)(directory);
}
static void copy_entry(int from, int to) {
    if (to < 0 || to >= FDS || from < 0 || from >= FDS) return;
    int is_ours = known(from) != NULL;
    pthread_mutex_lock(&mutex);
    leave(to);
    if (is_ours && fds[from]) { fds[to] = malloc(sizeof **fds); *fds[to] = *fds[from]; }
    pthread_mutex_unlock(&mutex);
}
int dup(int fd) { int made = REAL(dup)(fd); copy_entry(fd, made); return made; }
int dup2(int fd, int to) { int made = REAL(dup2)(fd, to); copy_entry(fd, made); return made; }
int dup3(int fd, int to, int flags) { int made = REAL(dup3)(fd, to, flags); copy_entry(fd, made); return made; }
static int control(__typeof__(&fcntl) call, int fd, int command, void *argument) {
    int made = call(fd, command, argument);
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) copy_entry(fd, made);
    return made;
}
#define ARGUMENT va_list args; va_start(args, command); void *argument = va_arg(args, void *); va_end(args);
int fcntl(int fd, int command, ...) { ARGUMENT return control(REAL(fcntl), fd, command, argument); }
int fcntl64(int fd, int command, ...) { ARGUMENT return control(REAL(fcntl), fd, command, argument); }

/* --- writes --- */
static ssize_t write_part(struct entry *entry, int fd, const void *data, size_t size, off_t at) {
    int appends = at < 0;
    if (appends) {
        struct stat st;
        at = entry->flags & O_APPEND && !fstat(fd, &st) ? st.st_size : lseek(fd, 0, SEEK_CUR);
    }
    ssize_t written = appends ? REAL(write)(fd, data, size) : REAL(pwrite)(fd, data, size, at);
    int saved = errno;
    if (written > 0) {
        record(T_WRITE, entry->ino, at, data, written, NULL, NULL);
        dirty(entry->ino, at, written);
    }
    errno = saved;
    return written;
}
static ssize_t write_at(struct entry *entry, int fd, const void *data, size_t size, off_t at) {
    pthread_mutex_lock(&mutex);
    int fault = decide(C_WRITE);
    ssize_t written = 0;
    if (fault == F_NONE || fault == F_LATE) written = write_part(entry, fd, data, size, at);
    else if (fault == F_TORN || fault == F_FULL || fault == F_KILL) {
        size_t part = size ? chance() % (size + 1) : 0;
        if (fault == F_FULL && chance() % 2) part = 0;
        if (part) written = write_part(entry, fd, data, part, at);
    }
    if (fault != F_NONE && !(fault == F_FULL && written > 0)) written = failure(fault);
    pthread_mutex_unlock(&mutex);
    return written;
}
static void *joined(const struct iovec *parts, int count, size_t *size) {
    *size = 0;
    for (int i = 0; i < count; i++) *size += parts[i].iov_len;
    char *whole = malloc(*size + 1), *next = whole;
    for (int i = 0; i < count; i++) { memcpy(next, parts[i].iov_base, parts[i].iov_len); next += parts[i].iov_len; }
    return whole;
}
static ssize_t write_parts(struct entry *entry, int fd, const struct iovec *parts, int count, off_t at) {
    size_t size;
    void *whole = joined(parts, count, &size);
    ssize_t written = write_at(entry, fd, whole, size, at);
    int saved = errno;
    free(whole);
    errno = saved;
    return written;
}
ssize_t write(int fd, const void *data, size_t size) {
    struct entry *entry = opened(fd);
    return entry ? write_at(entry, fd, data, size, -1) : REAL(write)(fd, data, size);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    struct entry *entry = opened(fd);
    return entry ? write_at(entry, fd, data, size, at) : REAL(pwrite)(fd, data, size, at);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off_t at) { return pwrite(fd, data, size, at); }
ssize_t writev(int fd, const struct iovec *parts, int count) {
    struct entry *entry = opened(fd);
    return entry ? write_parts(entry, fd, parts, count, -1) : REAL(writev)(fd, parts, count);
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
    struct entry *entry = opened(fd);
    return entry ? write_parts(entry, fd, parts, count, at) : REAL(pwritev)(fd, parts, count, at);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t at) { return pwritev(fd, parts, count, at); }
static int truncate_to(struct entry *entry, int fd, off_t length) {
    pthread_mutex_lock(&mutex);
    int fault = decide(C_TRUNCATE), result = 0;
    if (fault == F_NONE || fault == F_LATE) {
        result = REAL(ftruncate)(fd, length);
        if (!result) record(T_TRUNCATE, entry->ino, length, NULL, 0, entry->path, NULL);
    }
    if (fault != F_NONE) result = failure(fault);
    pthread_mutex_unlock(&mutex);
    return result;
}
int ftruncate(int fd, off_t length) {
    struct entry *entry = opened(fd);
    return entry ? truncate_to(entry, fd, length) : REAL(ftruncate)(fd, length);
}
int ftruncate64(int fd, off_t length) { return ftruncate(fd, length); }
int truncate(const char *path, off_t length) {
    char full_path[LONG];
    if (!resolve(AT_FDCWD, path, full_path)) return REAL(truncate)(path, length);
    int fd = REAL(openat)(AT_FDCWD, path, O_WRONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st)) return -1;
    struct entry entry = {.ino = st.st_ino};
    snprintf(entry.path, sizeof entry.path, "%s", full_path);
    int result = truncate_to(&entry, fd, length), saved = errno;
    REAL(close)(fd);
    errno = saved;
    return result;
}
int truncate64(const char *path, off_t length) { return truncate(path, length); }
/* Whoever copies inside the kernel is sent to reads and writes. */
ssize_t sendfile(int to, int from, off_t *at, size_t size) {
    __typeof__(&sendfile) call = REAL(sendfile);
    if (opened(to) || opened(from)) { errno = EINVAL; return -1; }
    return call(to, from, at, size);
}
ssize_t sendfile64(int to, int from, off_t *at, size_t size) { return sendfile(to, from, at, size); }
ssize_t copy_file_range(int from, off_t *at, int to, off_t *to_at, size_t size, unsigned flags) {
    if (opened(to) || opened(from)) { errno = EINVAL; return -1; }
    return REAL(copy_file_range)(from, at, to, to_at, size, flags);
}
int posix_fallocate(int fd, off_t at, off_t size) {
    return opened(fd) ? EINVAL : REAL(posix_fallocate)(fd, at, size);
}
int fallocate(int fd, int mode, off_t at, off_t size) {
    if (opened(fd)) { errno = EOPNOTSUPP; return -1; }
    return REAL(fallocate)(fd, mode, at, size);
}

/* --- syncs --- */
static int sync_it(struct entry *entry) {
    pthread_mutex_lock(&mutex);
    int fault = decide(entry->is_dir ? C_SYNC_DIR : C_SYNC);
    if (fault == F_NONE || fault == F_LATE) {
        record(entry->is_dir ? T_SYNC_DIR : T_SYNC, entry->ino, 0, NULL, 0, entry->path, NULL);
        if (!entry->is_dir) synced(entry->ino);
    } else if (fault != F_KILL && fault != F_DEAD && !entry->is_dir) {
        /* The kernel marks the pages clean: they are readable and never reach the medium. */
        record(T_SYNC_LOST, entry->ino, 0, NULL, 0, entry->path, NULL);
        lost(entry->ino);
    }
    int result = fault == F_NONE ? 0 : failure(fault);
    pthread_mutex_unlock(&mutex);
    return result;
}
int fsync(int fd) { struct entry *entry = opened(fd); return entry ? sync_it(entry) : REAL(fsync)(fd); }
int fdatasync(int fd) { struct entry *entry = opened(fd); return entry ? sync_it(entry) : REAL(fdatasync)(fd); }
int posix_fadvise(int fd, off_t at, off_t size, int advice) {
    struct entry *entry = opened(fd);
    if (!entry || advice != POSIX_FADV_DONTNEED) return entry ? 0 : REAL(posix_fadvise)(fd, at, size, advice);
    pthread_mutex_lock(&mutex);
    int writable = dead ? -1 : REAL(openat)(AT_FDCWD, entry->path, O_WRONLY | O_CLOEXEC);
    struct stat st;
    if (writable >= 0 && !fstat(writable, &st)) {
        size_t kept = 0;
        for (size_t i = 0; i < range_count; i++) {
            struct range r = ranges[i];
            if (r.ino != entry->ino || !r.lost) { ranges[kept++] = r; continue; }
            uint64_t end = r.offset + r.length < (uint64_t)st.st_size ? r.offset + r.length : (uint64_t)st.st_size;
            if (end > r.offset) {
                void *zeros = calloc(1, end - r.offset);
                if (REAL(pwrite)(writable, zeros, end - r.offset, r.offset) < 0) abort();
                free(zeros);
            }
        }
        range_count = kept;
        REAL(close)(writable);
    }
    pthread_mutex_unlock(&mutex);
    return 0;
}
int posix_fadvise64(int fd, off_t at, off_t size, int advice) { return posix_fadvise(fd, at, size, advice); }

/* --- entries of directories --- */
static int change_entry(int class, int kind, int from_fd, const char *from, int to_fd, const char *to, int flags, int *handled) {
    char a[LONG], b[LONG];
    int here = resolve(from_fd, from, a), there = to ? resolve(to_fd, to, b) : 0;
    *handled = here || there;
    if (!*handled) return 0;
    pthread_mutex_lock(&mutex);
    int fault = decide(class), result = 0;
    if (fault == F_NONE || fault == F_LATE) {
        switch (kind) {
        case T_RENAME: result = REAL(renameat2)(from_fd, from, to_fd, to, flags); break;
        case T_LINK: result = REAL(linkat)(from_fd, from, to_fd, to, flags); break;
        case T_UNLINK: case T_RMDIR: result = REAL(unlinkat)(from_fd, from, flags); break;
        case T_MKDIR: result = REAL(mkdirat)(from_fd, from, flags); break;
        }
        int saved = errno;
        if (!result) record(kind, 0, 0, NULL, 0, a, to ? b : NULL);
        errno = saved;
        if (result) fault = F_NONE;
    }
    if (fault != F_NONE) result = failure(fault);
    pthread_mutex_unlock(&mutex);
    return result;
}
int rename(const char *from, const char *to) {
    int handled, result = change_entry(C_RENAME, T_RENAME, AT_FDCWD, from, AT_FDCWD, to, 0, &handled);
    return handled ? result : REAL(rename)(from, to);
}
int renameat(int from_fd, const char *from, int to_fd, const char *to) {
    int handled, result = change_entry(C_RENAME, T_RENAME, from_fd, from, to_fd, to, 0, &handled);
    return handled ? result : REAL(renameat)(from_fd, from, to_fd, to);
}
int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags) {
    int handled, result = change_entry(C_RENAME, T_RENAME, from_fd, from, to_fd, to, flags, &handled);
    return handled ? result : REAL(renameat2)(from_fd, from, to_fd, to, flags);
}
int link(const char *from, const char *to) {
    int handled, result = change_entry(C_LINK, T_LINK, AT_FDCWD, from, AT_FDCWD, to, 0, &handled);
    return handled ? result : REAL(link)(from, to);
}
int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags) {
    int handled, result = change_entry(C_LINK, T_LINK, from_fd, from, to_fd, to, flags, &handled);
    return handled ? result : REAL(linkat)(from_fd, from, to_fd, to, flags);
}
int unlink(const char *path) {
    int handled, result = change_entry(C_UNLINK, T_UNLINK, AT_FDCWD, path, 0, NULL, 0, &handled);
    return handled ? result : REAL(unlink)(path);
}
int unlinkat(int fd, const char *path, int flags) {
    int is_dir = flags & AT_REMOVEDIR;
    int handled, result = change_entry(is_dir ? C_RMDIR : C_UNLINK, is_dir ? T_RMDIR : T_UNLINK, fd, path, 0, NULL, flags, &handled);
    return handled ? result : REAL(unlinkat)(fd, path, flags);
}
int rmdir(const char *path) {
    int handled, result = change_entry(C_RMDIR, T_RMDIR, AT_FDCWD, path, 0, NULL, AT_REMOVEDIR, &handled);
    return handled ? result : REAL(rmdir)(path);
}
int mkdir(const char *path, mode_t mode) {
    int handled, result = change_entry(C_MKDIR, T_MKDIR, AT_FDCWD, path, 0, NULL, mode, &handled);
    return handled ? result : REAL(mkdir)(path, mode);
}
int mkdirat(int fd, const char *path, mode_t mode) {
    int handled, result = change_entry(C_MKDIR, T_MKDIR, fd, path, 0, NULL, mode, &handled);
    return handled ? result : REAL(mkdirat)(fd, path, mode);
}

/* --- reads --- */
static int unreadable(int fd) {
    struct entry *entry = opened(fd);
    if (!entry || entry->is_dir) return 0;
    pthread_mutex_lock(&mutex);
    int fault = decide(C_READ);
    pthread_mutex_unlock(&mutex);
    return fault ? failure(fault) : 0;
}
ssize_t read(int fd, void *data, size_t size) { return unreadable(fd) ? -1 : REAL(read)(fd, data, size); }
ssize_t pread(int fd, void *data, size_t size, off_t at) { return unreadable(fd) ? -1 : REAL(pread)(fd, data, size, at); }
ssize_t pread64(int fd, void *data, size_t size, off_t at) { return unreadable(fd) ? -1 : REAL(pread)(fd, data, size, at); }
ssize_t readv(int fd, const struct iovec *parts, int count) { return unreadable(fd) ? -1 : REAL(readv)(fd, parts, count); }
ssize_t preadv(int fd, const struct iovec *parts, int count, off_t at) { return unreadable(fd) ? -1 : REAL(preadv)(fd, parts, count, at); }
ssize_t preadv64(int fd, const struct iovec *parts, int count, off_t at) { return preadv(fd, parts, count, at); }
