/* count_words: counts the words of text files into a region, with many threads, durably, and so that it can be killed at any moment.
 *
 * A word is a run of the letters A-Z and a-z, in lower case; the row of family `words` with that name holds its count. Files are cut into chunks.
 * A chunk's counts and the mark that the chunk is done (row = the file, in family `files`) are ONE atomic batch, so a chunk is counted once or not at
 * all: run the program again after a crash, and it goes on where it was. It uses region.h and region_pack.h only.
 */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <region.h>
#include <region_pack.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WORD_MAX 1024 /* a longer run of letters is no word of any language: the program stops */
#define ATTEMPTS_MAX 100
#define COUNT "n" /* the one qualifier of a word's row */
#define STAMP "stamp"

typedef struct {
  char *path;          /* absolute: the row of its marks */
  const char *given;   /* as named on the command line, for messages */
  uint64_t size;       /* bytes */
  uint64_t first;      /* number of its first chunk among all files' chunks */
  uint64_t chunks;
  bool *done;          /* chunks that an earlier run committed */
} text_file;

static struct {
  const char *region_path;
  text_file *files;
  size_t n_files;
  uint32_t threads, durability, progress_ms;
  uint64_t chunk_bytes, top;
  bool dump;
} options = {.threads = 100, .durability = REGION_DUR_SYNC_WAL, .progress_ms = 200, .chunk_bytes = 16 << 10};

static region_t *region;
static uint32_t words_family, files_family;

/* Shared by the workers and the thread that shows the progress. */
static _Atomic uint64_t next_chunk, chunks_done, words_counted, increments_made;
static uint64_t chunks_all, chunks_before;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static pthread_cond_t worker_ended;
static uint32_t workers_left;
static char failure[512]; /* of the first worker that failed */
static atomic_bool stop;

static void die(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs("count_words: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  exit(1);
}

static void *allocate(size_t n, size_t size) {
  void *p = calloc(n ? n : 1, size);
  if (!p) die("out of memory");
  return p;
}

static void check(region_status status, const region_error_t *err, const char *what) {
  if (status < 0) die("%s: %s: %s", what, region_status_name(status), err->msg);
}

static double now_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- counting: what a worker does ---- */

typedef struct {
  const char *word; /* into the worker's text */
  uint32_t len, count;
  uint64_t chunk; /* the entry is free unless this is the current chunk */
} tally;

typedef struct {
  region_error_t err;
  char *text;     /* the byte before the chunk, the chunk, and the rest of its last word */
  tally *tallies; /* open addressing */
  size_t tallies_mask;
  tally **seen;   /* entries of this chunk */
  size_t n_seen;
  uint64_t words;
  char *ops;      /* the packed batch */
  size_t ops_cap;
  const text_file *open_file;
  int fd;
} worker;

static void fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  pthread_mutex_lock(&lock);
  if (!failure[0]) vsnprintf(failure, sizeof failure, format, args);
  pthread_mutex_unlock(&lock);
  va_end(args);
  atomic_store(&stop, true);
}

static bool is_letter(char c) { return (unsigned char)((c | 32) - 'a') < 26; }

/* Reads the bytes from `from` on, at most n; the file may not have become shorter. */
static bool read_text(worker *w, const text_file *file, uint64_t from, size_t n, uint64_t must_reach, size_t *got) {
  if (w->open_file != file) {
    if (w->fd >= 0) close(w->fd);
    w->open_file = file;
    w->fd = open(file->path, O_RDONLY | O_CLOEXEC);
    if (w->fd < 0) {
      w->open_file = NULL;
      return fail("%s: %s", file->given, strerror(errno)), false;
    }
  }
  for (*got = 0; *got < n;) {
    ssize_t r = pread(w->fd, w->text + *got, n - *got, (off_t)(from + *got));
    if (r < 0 && errno == EINTR) continue;
    if (r < 0) return fail("%s: %s", file->given, strerror(errno)), false;
    if (r == 0) break;
    *got += (size_t)r;
  }
  if (from + *got < must_reach) return fail("%s became shorter while it was read", file->given), false;
  return true;
}

static void count_word(worker *w, uint64_t chunk, char *word, size_t len) {
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < len; i++) {
    word[i] |= 32;
    hash = (hash ^ (unsigned char)word[i]) * 1099511628211u;
  }
  size_t slot = (size_t)(hash ^ hash >> 32) & w->tallies_mask;
  for (;; slot = (slot + 1) & w->tallies_mask) {
    tally *t = &w->tallies[slot];
    if (t->chunk != chunk) {
      *t = (tally){word, (uint32_t)len, 1, chunk};
      w->seen[w->n_seen++] = t;
      return;
    }
    if (t->len == len && !memcmp(t->word, word, len)) {
      t->count++;
      return;
    }
  }
}

/* Tallies the words that begin in bytes [begin, end) of the file. */
static bool tally_chunk(worker *w, const text_file *file, uint64_t chunk, uint64_t begin, uint64_t end) {
  uint64_t from = begin > 0 ? begin - 1 : 0; /* one byte back, to see whether a word goes on into this chunk */
  size_t len, i = 0, limit = (size_t)(end - from);
  if (!read_text(w, file, from, limit + WORD_MAX + 1, end, &len)) return false;
  if (from + len > file->size) len = (size_t)(file->size - from); /* it grew: the new end is not ours */
  w->n_seen = 0;
  w->words = 0;
  if (begin > 0)
    while (i < len && is_letter(w->text[i])) i++;
  while (i < limit) {
    size_t start = i;
    while (i < len && is_letter(w->text[i])) i++;
    if (i - start > WORD_MAX) return fail("%s: more than %d letters in a row at byte %" PRIu64, file->given, WORD_MAX, from + start), false;
    if (i > start) {
      count_word(w, chunk, w->text + start, i - start);
      w->words++;
    } else {
      i++;
    }
  }
  return true;
}

static void chunk_qualifier(unsigned char q[4], uint64_t number) {
  for (int i = 3; i >= 0; i--, number >>= 8) q[i] = (unsigned char)number;
}

/* One atomic batch: the mark that the chunk is done, and an increment for each of its words. */
static bool commit_chunk(worker *w, const text_file *file, uint64_t number) {
  static const region_write_options_t atomic = {.struct_size = sizeof atomic, .flags = REGION_W_ATOMIC};
  unsigned char qualifier[4], words[8];
  size_t path_len = strlen(file->path), used = 0;
  size_t need = region_pack_padded(REGION_PACK_OP_HEADER + path_len + sizeof qualifier + sizeof words);
  for (size_t i = 0; i < w->n_seen; i++) need += region_pack_padded(REGION_PACK_OP_HEADER + w->seen[i]->len + sizeof COUNT - 1);
  if (need > w->ops_cap) {
    free(w->ops);
    w->ops = allocate(w->ops_cap = need * 2, 1);
  }
  chunk_qualifier(qualifier, number);
  region_i64_put(words, (int64_t)w->words);
  region_mutation_t op = {.op = REGION_OP_PUT, .family = files_family};
  op.row = (region_slice_t){file->path, path_len};
  op.qual = (region_slice_t){qualifier, sizeof qualifier};
  op.value = (region_slice_t){words, sizeof words};
  used = region_pack_op(w->ops, w->ops_cap, used, &op);
  op = (region_mutation_t){.op = REGION_OP_INCREMENT, .family = words_family};
  op.qual = (region_slice_t){COUNT, sizeof COUNT - 1};
  for (size_t i = 0; i < w->n_seen && used != 0; i++) {
    op.row = (region_slice_t){w->seen[i]->word, w->seen[i]->len};
    op.delta = w->seen[i]->count;
    used = region_pack_op(w->ops, w->ops_cap, used, &op);
  }
  if (used == 0) return fail("%s, chunk %" PRIu64 ": its operations do not fit the packed format", file->given, number), false;

  region_status status;
  for (int attempt = 1;; attempt++) {
    status = region_batch_mutate_packed(region, w->ops, used, w->n_seen + 1, &atomic, NULL, 0, &w->err);
    if (status >= 0 || !(w->err.flags & REGION_ERR_RETRYABLE) || attempt == ATTEMPTS_MAX) break;
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL); /* memory or log space is short */
  }
  if (status < 0) return fail("%s, chunk %" PRIu64 ": %s: %s", file->given, number, region_status_name(status), w->err.msg), false;
  return true;
}

static const text_file *file_of(uint64_t chunk) {
  size_t low = 0, high = options.n_files - 1; /* the last file whose first chunk is not beyond */
  while (low < high) {
    size_t middle = low + (high - low + 1) / 2;
    if (options.files[middle].first <= chunk)
      low = middle;
    else
      high = middle - 1;
  }
  return &options.files[low];
}

static void *work(void *arg) {
  worker *w = arg;
  for (;;) {
    uint64_t chunk = atomic_fetch_add(&next_chunk, 1);
    if (chunk >= chunks_all || atomic_load(&stop)) break;
    const text_file *file = file_of(chunk);
    uint64_t number = chunk - file->first, begin = number * options.chunk_bytes, end = begin + options.chunk_bytes;
    if (file->done[number]) continue;
    if (end > file->size) end = file->size;
    if (!tally_chunk(w, file, chunk + 1, begin, end) || !commit_chunk(w, file, number)) break;
    atomic_fetch_add(&chunks_done, 1);
    atomic_fetch_add(&words_counted, w->words);
    atomic_fetch_add(&increments_made, w->n_seen);
  }
  pthread_mutex_lock(&lock);
  workers_left--;
  pthread_cond_signal(&worker_ended);
  pthread_mutex_unlock(&lock);
  return NULL;
}

static worker *worker_new(void) {
  worker *w = allocate(1, sizeof *w);
  size_t words_max = (size_t)options.chunk_bytes / 2 + 1, slots = 16;
  while (slots < 2 * words_max) slots *= 2;
  region_error_init(&w->err);
  w->text = allocate((size_t)options.chunk_bytes + WORD_MAX + 2, 1);
  w->tallies = allocate(slots, sizeof *w->tallies);
  w->tallies_mask = slots - 1;
  w->seen = allocate(words_max, sizeof *w->seen);
  w->fd = -1;
  return w;
}

static void worker_free(worker *w) {
  if (w->fd >= 0) close(w->fd);
  free(w->text);
  free(w->tallies);
  free(w->seen);
  free(w->ops);
  free(w);
}

/* ---- files: what is to be counted, and what already is ---- */

/* A file counts as the same one while this text is the same: otherwise its chunks would be cut differently. */
static void check_stamp(text_file *file, const struct stat *s, region_error_t *err) {
  char now[128], before[128];
  int len = snprintf(now, sizeof now, "%" PRIu64 " bytes, changed at %lld.%09ld, chunks of %" PRIu64, file->size, (long long)s->st_mtim.tv_sec,
                     s->st_mtim.tv_nsec, options.chunk_bytes);
  region_value_t value = {.buf = before, .cap = sizeof before};
  region_status status = region_get(region, NULL, file->path, strlen(file->path), files_family, STAMP, sizeof STAMP - 1, &value, err);
  check(status, err, file->given);
  if (status == REGION_NOT_FOUND) {
    status = region_put(region, file->path, strlen(file->path), files_family, STAMP, sizeof STAMP - 1, now, (size_t)len, NULL, err);
    check(status, err, file->given);
    return;
  }
  if (value.len != (size_t)len || memcmp(value.data, now, value.len))
    die("%s is not as it was when its counting began (then %.*s; now %s): count into a new region, or restore file and chunk size", file->given, (int)value.len,
        (const char *)value.data, now);
  region_value_release(&value);
}

static void find_done_chunks(text_file *file, region_error_t *err) {
  for (uint64_t number = 0; number < file->chunks; number++) {
    unsigned char qualifier[4];
    char words[8];
    region_value_t value = {.buf = words, .cap = sizeof words};
    chunk_qualifier(qualifier, number);
    region_status status = region_get(region, NULL, file->path, strlen(file->path), files_family, qualifier, sizeof qualifier, &value, err);
    check(status, err, file->given);
    file->done[number] = status == REGION_OK;
    chunks_before += file->done[number];
    region_value_release(&value);
  }
}

static void prepare_files(region_error_t *err) {
  for (size_t i = 0; i < options.n_files; i++) {
    text_file *file = &options.files[i];
    struct stat s;
    file->path = realpath(file->given, NULL);
    if (!file->path || stat(file->path, &s)) die("%s: %s", file->given, strerror(errno));
    if (!S_ISREG(s.st_mode)) die("%s is not a regular file", file->given);
    for (size_t j = 0; j < i; j++)
      if (!strcmp(file->path, options.files[j].path)) die("%s is named twice", file->given);
    file->size = (uint64_t)s.st_size;
    file->first = chunks_all;
    file->chunks = (file->size + options.chunk_bytes - 1) / options.chunk_bytes;
    if (file->chunks > UINT32_MAX) die("%s has too many chunks: choose larger ones with --chunk", file->given);
    file->done = allocate((size_t)file->chunks, sizeof *file->done);
    chunks_all += file->chunks;
    check_stamp(file, &s, err);
    find_done_chunks(file, err);
  }
}

static void show_progress(double started, const char *end) {
  uint64_t done = chunks_before + atomic_load(&chunks_done), increments = atomic_load(&increments_made);
  double seconds = now_seconds() - started;
  fprintf(stderr, "progress: %" PRIu64 " of %" PRIu64 " chunks, %d %%, %" PRIu64 " words, %.0f increments/s%s", done, chunks_all,
          chunks_all ? (int)(done * 100 / chunks_all) : 100, atomic_load(&words_counted), seconds > 0 ? (double)increments / seconds : 0, end);
}

static void count_files(region_error_t *err) {
  prepare_files(err);
  if (chunks_before) fprintf(stderr, "resuming: %" PRIu64 " of %" PRIu64 " chunks were done before\n", chunks_before, chunks_all);

  worker **workers = allocate(options.threads, sizeof *workers);
  pthread_t *threads = allocate(options.threads, sizeof *threads);
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&worker_ended, &attributes);
  double started = now_seconds();
  workers_left = options.threads;
  for (uint32_t i = 0; i < options.threads; i++) {
    workers[i] = worker_new();
    if (pthread_create(&threads[i], NULL, work, workers[i])) die("cannot start thread %" PRIu32 ": too many?", i);
  }

  const char *line_end = isatty(STDERR_FILENO) ? "   \r" : "\n";
  struct timespec next;
  clock_gettime(CLOCK_MONOTONIC, &next);
  pthread_mutex_lock(&lock);
  while (workers_left > 0) {
    next.tv_nsec += (long)(options.progress_ms % 1000) * 1000000;
    next.tv_sec += options.progress_ms / 1000 + next.tv_nsec / 1000000000;
    next.tv_nsec %= 1000000000;
    int rc = 0;
    while (workers_left > 0 && rc != ETIMEDOUT) rc = pthread_cond_timedwait(&worker_ended, &lock, &next);
    pthread_mutex_unlock(&lock);
    show_progress(started, line_end);
    pthread_mutex_lock(&lock);
  }
  pthread_mutex_unlock(&lock);
  for (uint32_t i = 0; i < options.threads; i++) {
    pthread_join(threads[i], NULL);
    worker_free(workers[i]);
  }
  if (failure[0]) die("%s\ncount_words: run it again to go on: what is committed is not counted twice", failure);

  double seconds = now_seconds() - started;
  fprintf(stderr, "counted: %" PRIu64 " words in %" PRIu64 " commits, %" PRIu64 " increments in %.2f s, %.0f increments/s\n",
          atomic_load(&words_counted), atomic_load(&chunks_done), atomic_load(&increments_made), seconds, (double)atomic_load(&increments_made) / seconds);
  free(workers);
  free(threads);
}

/* ---- showing the counts ---- */

typedef struct {
  char *word;
  int64_t count;
} word_count;

static int more_often_first(const void *a, const void *b) {
  const word_count *x = a, *y = b;
  if (x->count != y->count) return x->count > y->count ? -1 : 1;
  return strcmp(x->word, y->word);
}

/* Scans the words, which come in byte order; --dump prints them all, --top sorts and prints the most frequent. */
static void show_counts(region_error_t *err) {
  region_column_t column = {.family = words_family, .kind = REGION_COL_FAMILY};
  region_scan_t scan = {.struct_size = sizeof scan, .columns = &column, .n_columns = 1, .column_size = sizeof column};
  region_scanner_t *scanner;
  region_cell_t cell;
  region_status status;
  word_count *words = NULL;
  size_t n = 0, cap = 0;
  check(region_scanner_open(region, NULL, &scan, &scanner, err), err, "scan");
  while ((status = region_scanner_next(scanner, &cell, sizeof cell, err)) == REGION_OK) {
    if (cell.value.len != 8) die("the count of %.*s has %zu bytes", (int)cell.row.len, (const char *)cell.row.data, cell.value.len);
    int64_t count = region_i64_get(cell.value.data);
    if (options.dump) printf("%.*s\t%" PRId64 "\n", (int)cell.row.len, (const char *)cell.row.data, count);
    if (!options.top) continue;
    if (n == cap) {
      words = realloc(words, (cap = cap ? 2 * cap : 1024) * sizeof *words);
      if (!words) die("out of memory");
    }
    words[n].word = allocate(cell.row.len + 1, 1);
    memcpy(words[n].word, cell.row.data, cell.row.len);
    words[n++].count = count;
  }
  check(status, err, "scan");
  region_scanner_close(scanner);
  if (n) qsort(words, n, sizeof *words, more_often_first);
  for (size_t i = 0; i < n; i++) {
    if (i < options.top) printf("%10" PRId64 "  %s\n", words[i].count, words[i].word);
    free(words[i].word);
  }
  free(words);
  if (fflush(stdout) || ferror(stdout)) die("standard output: %s", strerror(errno));
}

/* ---- the program ---- */

static void usage(FILE *to) {
  fputs("usage: count_words [OPTION...] REGION [FILE...]\n"
        "Counts the words of the files into the region, a folder that is made if it is not there. Run again after a crash, it goes on.\n"
        "  --threads N         that count (100)\n"
        "  --durability LEVEL  skip, async, sync or fsync (sync: survives kill -9; fsync: a power cut)\n"
        "  --chunk BYTES       committed at once (16384)\n"
        "  --progress MS       between two lines of progress on standard error (200)\n"
        "  --top N             then print the N most frequent words\n"
        "  --dump              then print every word and its count, in byte order\n",
        to);
}

static uint64_t number_argument(const char *option, const char *text, uint64_t min, uint64_t max) {
  char *end;
  errno = 0;
  unsigned long long v = strtoull(text, &end, 10);
  if (errno || *end || end == text || *text == '-' || v < min || v > max)
    die("%s takes a number from %" PRIu64 " to %" PRIu64 ", not %s", option, min, max, text);
  return v;
}

static uint32_t durability_argument(const char *text) {
  static const char *const names[] = {"skip", "async", "sync", "fsync"};
  for (uint32_t i = 0; i < 4; i++)
    if (!strcmp(text, names[i])) return REGION_DUR_SKIP_WAL + i;
  die("--durability is skip, async, sync or fsync, not %s", text);
  return 0;
}

static void parse_arguments(int argc, char **argv) {
  options.files = allocate((size_t)argc, sizeof *options.files);
  for (int i = 1; i < argc; i++) {
    const char *a = argv[i];
    bool takes_value = !strcmp(a, "--threads") || !strcmp(a, "--durability") || !strcmp(a, "--chunk") || !strcmp(a, "--progress") || !strcmp(a, "--top");
    const char *value = takes_value ? argv[++i] : NULL;
    if (takes_value && !value) die("%s needs a value", a);
    if (!strcmp(a, "--help")) {
      usage(stdout);
      exit(0);
    } else if (!strcmp(a, "--threads")) options.threads = (uint32_t)number_argument(a, value, 1, 10000);
    else if (!strcmp(a, "--durability")) options.durability = durability_argument(value);
    else if (!strcmp(a, "--chunk")) options.chunk_bytes = number_argument(a, value, 16, 16 << 20);
    else if (!strcmp(a, "--progress")) options.progress_ms = (uint32_t)number_argument(a, value, 1, 60000);
    else if (!strcmp(a, "--top")) options.top = number_argument(a, value, 1, UINT32_MAX);
    else if (!strcmp(a, "--dump")) options.dump = true;
    else if (!strncmp(a, "--", 2)) die("unknown option %s; see --help", a);
    else if (!options.region_path) options.region_path = a;
    else options.files[options.n_files++].given = a;
  }
  if (!options.region_path || (!options.n_files && !options.top && !options.dump)) {
    usage(stderr);
    exit(2);
  }
}

int main(int argc, char **argv) {
  region_error_t err = REGION_ERROR_INIT;
  region_family_t families[] = {{.name = {"words", 5}}, {.name = {"files", 5}}};
  parse_arguments(argc, argv);
  region_options_t open_options = {
      .struct_size = sizeof open_options,
      .flags = options.n_files ? REGION_OPEN_CREATE : 0,
      .durability = options.durability,
      .families = families,
      .n_families = options.n_files ? 2 : 0,
      .family_size = sizeof *families,
  };
  check(region_open(options.region_path, &open_options, &region, &err), &err, options.region_path);
  if (region_family_id(region, "words", 5, &words_family, &err) != REGION_OK || region_family_id(region, "files", 5, &files_family, &err) != REGION_OK)
    die("%s was not made by count_words: it has no families `words` and `files`", options.region_path);
  if (options.n_files) count_files(&err);
  if (options.top || options.dump) show_counts(&err);
  check(region_close(region, 0, REGION_WAIT_FOREVER, &err), &err, "close");
  for (size_t i = 0; i < options.n_files; i++) {
    free(options.files[i].path);
    free(options.files[i].done);
  }
  free(options.files);
  return 0;
}
