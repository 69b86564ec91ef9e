/* What StarPU moves between main memory and a device that has room for some of the tiles only: the programs, tiles and
 * order of `what_is_moved_is_near_the_least_there_is` (verify/faulty/tests/scenarios/beyond.rs), and of the benches'
 * product of 108 tiles, on one OpenCL worker.
 *
 *     apt-get install libstarpu-dev pocl-opencl-icd ocl-icd-opencl-dev
 *     cc -O2 -Wall -o tiles benches/starpu/tiles.c $(pkg-config --cflags --libs starpu-1.3) -lOpenCL
 *     ./tiles [0 to 5, for one program]
 *
 * For each program and room: copies of tiles with StarPU's default scheduler, and the fewest with any of `settings`.
 * `RUNS` is how often each is run (5; the median counts), `WORK` for how many microseconds a task works (0), and with
 * `ALL=1` what each setting moves is printed too. All else is told to StarPU by its own variables. A run takes a fifth of
 * a second; one that has not ended after a minute, or has found wrong data, is left out, and reported.
 *
 * All tasks are submitted before one runs. Copies count until all tasks have ended: what is still on the device then
 * is not brought back. A tile without data at first has no home, and whoever changes it first writes it; a task that
 * would read it before that does without (two of the random program's do). Each task checks that it finds what the
 * tasks before it have left.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <starpu.h>
#include <starpu_opencl.h>
#include <starpu_profiling.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TILE = 4 << 20, MOST_TILES = 108, MOST_USES = 216, MOST_RUNS = 99 };

/* One task: the tile that it changes, those that it reads, and whether it replaces the first. */
struct use {
	int changes, replaces, count, reads[3];
};

struct program {
	const char *name;
	int tiles, count, given[MOST_TILES];
	struct use uses[MOST_USES];
};

static struct use *add(struct program *p, int changes, int replaces, int count, int first, int second)
{
	p->uses[p->count] = (struct use){ changes, replaces, count, { first, second } };
	return &p->uses[p->count++];
}

static void begin(struct program *p, const char *name, int tiles, int with_data)
{
	p->name = name;
	p->tiles = tiles;
	for (int t = 0; t < tiles; t++)
		p->given[t] = t < with_data;
}

static void matmul(struct program *p, int n)
{
	begin(p, "tiled product", 3 * n * n, 2 * n * n);
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++)
			for (int k = 0; k < n; k++)
				add(p, 2 * n * n + i * n + j, k == 0, 2, i * n + k, n * n + k * n + j);
}

static int row(int i)
{
	return i * (i + 1) / 2;
}

static void cholesky(struct program *p, int n)
{
	begin(p, "Cholesky", row(n), row(n));
	for (int k = 0; k < n; k++) {
		add(p, row(k) + k, 0, 0, 0, 0);
		for (int i = k + 1; i < n; i++)
			add(p, row(i) + k, 0, 1, row(k) + k, 0);
		for (int i = k + 1; i < n; i++)
			for (int j = k + 1; j <= i; j++)
				add(p, row(i) + j, 0, i == j ? 1 : 2, row(i) + k, row(j) + k);
	}
}

static void stencil(struct program *p, int n, int steps)
{
	begin(p, "stencil", 2 * n, n);
	for (int step = 0; step < steps; step++)
		for (int i = 0; i < n; i++) {
			struct use *use = add(p, (step + 1) % 2 * n + i, 1, 0, 0, 0);
			for (int from = STARPU_MAX(i - 1, 0); from <= STARPU_MIN(i + 1, n - 1); from++)
				use->reads[use->count++] = step % 2 * n + from;
		}
}

static void cyclic(struct program *p, int n, int rounds)
{
	begin(p, "cyclic scan", n, n);
	for (int at = 0; at < rounds * n; at++)
		add(p, at % n, 0, 0, 0, 0);
}

/* The numbers of the tests' generator (SplitMix64). */
static uint64_t state;

static int below(int end)
{
	uint64_t z = state += 0x9e3779b97f4a7c15;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return ((z ^ (z >> 31)) >> 11) % (uint64_t)end;
}

static void at_random(struct program *p, int n, int tasks, uint64_t seed)
{
	state = seed;
	begin(p, "random", n, 0);
	for (int t = 0; t < n; t++)
		p->given[t] = t % 3 != 2;
	for (int at = 0; at < tasks; at++) {
		struct use *use = add(p, below(n), 0, 0, 0, 0);
		for (int more = below(3); more > 0; more--) {
			int tile = below(n - 1);
			tile += tile >= use->changes;
			if (use->count == 0 || use->reads[0] != tile)
				use->reads[use->count++] = tile;
		}
		use->replaces = below(100) < 20;
	}
}

/* What a task expects in the first word of each of its tiles, the changed one first, and what it leaves there. */
struct work {
	uint32_t expected[4], leaves;
	int tiles, replaces;
};

static useconds_t works;
static void work(void *buffers[], void *arg)
{
	struct work *work = arg;
	cl_command_queue queue;
	starpu_opencl_get_queue(starpu_worker_get_devid(starpu_worker_get_id()), &queue);
	for (int i = work->replaces; i < work->tiles; i++) {
		cl_mem tile = (cl_mem)STARPU_VECTOR_GET_DEV_HANDLE(buffers[i]);
		uint32_t found = 0;
		clEnqueueReadBuffer(queue, tile, CL_TRUE, 0, sizeof found, &found, 0, NULL, NULL);
		if (found != work->expected[i])
			_exit(3);
	}
	cl_mem changed = (cl_mem)STARPU_VECTOR_GET_DEV_HANDLE(buffers[0]);
	clEnqueueWriteBuffer(queue, changed, CL_TRUE, 0, sizeof work->leaves, &work->leaves, 0, NULL, NULL);
	usleep(works);
}

static double takes(struct starpu_task *task, unsigned implementation)
{
	return works + 100;
}

static struct starpu_perfmodel model = { .type = STARPU_COMMON, .cost_function = takes, .symbol = "tiles" };
static struct starpu_codelet codelet = { .opencl_funcs = { work }, .nbuffers = STARPU_VARIABLE_NBUFFERS, .model = &model };

/* Copies of tiles to the device and back. */
static void copied(int copies[2])
{
	copies[0] = copies[1] = 0;
	for (int bus = 0; bus < starpu_bus_get_count(); bus++) {
		struct starpu_profiling_bus_info info;
		starpu_bus_get_profiling_info(bus, &info);
		copies[starpu_bus_get_dst(bus) == STARPU_MAIN_RAM] += info.transferred_bytes / TILE;
	}
}

/* A scheduler, and for how many tasks ahead of their turn data is fetched; the first is what StarPU takes by itself. */
static const char *const settings[][2] = {
	{ "lws", "2" }, { "eager", "2" }, { "prio", "2" }, { "ws", "2" }, { "dm", "2" }, { "dmda", "2" }, { "dmdap", "2" },
	{ "dmdar", "2" }, { "dmdas", "2" }, { "dmdasd", "2" }, { "dmdar", "0" }, { "dmdas", "0" }, { "dmdasd", "0" },
	{ "heteroprio", "2" }, { "modular-heft", "2" }, { "modular-heft-prio", "2" }, { "modular-heft2", "2" },
};

/* Runs a program in this process, which is a child of its own: StarPU reads its variables once. */
static void run(const struct program *p, int room, const char *const setting[2], int copies[2])
{
	char limit[16];
	snprintf(limit, sizeof limit, "%d", room * (TILE >> 20) + (TILE >> 21));
	const char *variables[][2] = {
		{ "STARPU_LIMIT_OPENCL_MEM", limit }, { "STARPU_SCHED", setting[0] }, { "STARPU_OPENCL_PIPELINE", setting[1] },
		{ "STARPU_NCPU", "0" }, { "STARPU_NCUDA", "0" }, { "STARPU_NOPENCL", "1" }, { "STARPU_SILENT", "1" },
		{ "STARPU_OPENCL_ON_CPUS", "1" }, { "STARPU_OPENCL_ONLY_ON_CPUS", "1" },
	};
	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
		setenv(variables[i][0], variables[i][1], 1);
	starpu_ssize_t cap = (starpu_ssize_t)room * TILE + TILE / 2;
	if (starpu_init(NULL) != 0 || starpu_memory_get_total(starpu_worker_get_memory_node(0)) != cap)
		_exit(2);
	starpu_profiling_status_set(STARPU_PROFILING_ENABLE);
	starpu_data_handle_t handles[MOST_TILES];
	uint32_t holds[MOST_TILES];
	for (int t = 0; t < p->tiles; t++) {
		uint32_t *data = calloc(1, TILE);
		holds[t] = *data = p->given[t] ? 1000 + t : 0;
		starpu_vector_data_register(&handles[t], holds[t] ? STARPU_MAIN_RAM : -1, holds[t] ? (uintptr_t)data : 0, TILE / 4, 4);
	}
	starpu_pause();
	for (int at = 0; at < p->count; at++) {
		const struct use *use = &p->uses[at];
		struct work *work = calloc(1, sizeof *work);
		struct starpu_task *task = starpu_task_create();
		task->cl = &codelet;
		work->replaces = use->replaces || holds[use->changes] == 0;
		work->leaves = at + 1;
		work->expected[0] = holds[use->changes];
		task->handles[0] = handles[use->changes];
		STARPU_TASK_SET_MODE(task, work->replaces ? STARPU_W : STARPU_RW, 0);
		work->tiles = 1;
		for (int i = 0; i < use->count; i++) {
			if (holds[use->reads[i]] == 0)
				continue;
			work->expected[work->tiles] = holds[use->reads[i]];
			task->handles[work->tiles] = handles[use->reads[i]];
			STARPU_TASK_SET_MODE(task, STARPU_R, work->tiles++);
		}
		holds[use->changes] = work->leaves;
		task->nbuffers = work->tiles;
		task->cl_arg = work;
		STARPU_CHECK_RETURN_VALUE(starpu_task_submit(task), "submit");
	}
	starpu_resume();
	starpu_task_wait_for_all();
	copied(copies);
}

/* Runs a program in a child, and says whether it has ended as it should within a minute. */
static int measure(const struct program *p, int room, const char *const setting[2], int copies[2])
{
	int ends[2], status = 0;
	STARPU_ASSERT(pipe(ends) == 0);
	pid_t child = fork();
	if (child == 0) {
		alarm(60);
		run(p, room, setting, copies);
		_exit(write(ends[1], copies, 2 * sizeof *copies) < 0);
	}
	close(ends[1]);
	int is_whole = read(ends[0], copies, 2 * sizeof *copies) == 2 * sizeof *copies;
	close(ends[0]);
	waitpid(child, &status, 0);
	if (!is_whole || status != 0)
		fprintf(stderr, "%s, room for %d, %s %s: status %#x\n", p->name, room, setting[0], setting[1], status);
	return is_whole && status == 0;
}

static int by_sum(const void *a, const void *b)
{
	const int *x = a, *y = b;
	return x[0] + x[1] - y[0] - y[1];
}

static void compare(const struct program *p, int room)
{
	int best = -1, who = 0, by_default = -1, runs = getenv("RUNS") ? atoi(getenv("RUNS")) : 5;
	for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
		int copies[MOST_RUNS][2], ended = 0;
		for (int n = 0; n < runs && n < MOST_RUNS; n++)
			ended += measure(p, room, settings[s], copies[ended]);
		if (ended == 0)
			continue;
		qsort(copies, ended, sizeof *copies, by_sum);
		int *median = copies[ended / 2], *first = copies[0], *last = copies[ended - 1], sum = median[0] + median[1];
		if (getenv("ALL"))
			printf("    %s %s: %d there, %d back; %d to %d in %d runs\n", settings[s][0], settings[s][1], median[0],
				median[1], first[0] + first[1], last[0] + last[1], ended);
		by_default = s == 0 ? sum : by_default;
		if (best < 0 || sum < best)
			best = sum, who = s;
	}
	printf("%s, %d tiles, room for %d: %d by default, %d at best (%s %s)\n", p->name, p->tiles, room, by_default, best,
		settings[who][0], settings[who][1]);
}

int main(int count, char **args)
{
	int first = count > 1 ? atoi(args[1]) : 0, last = count > 1 ? first : 5;
	static struct program programs[6];
	works = getenv("WORK") ? atoi(getenv("WORK")) : 0;
	matmul(&programs[0], 2);
	cholesky(&programs[1], 4);
	stencil(&programs[2], 6, 5);
	cyclic(&programs[3], 10, 5);
	at_random(&programs[4], 11, 80, 3);
	matmul(&programs[5], 6);
	for (int i = first; i <= last; i++) {
		const struct program *p = &programs[i];
		int most = 0, rooms[] = { p->tiles, p->tiles * 10 / 11, p->tiles / 2, p->tiles / 4 };
		for (int at = 0; at < p->count; at++)
			most = STARPU_MAX(most, p->uses[at].count + 1);
		for (int r = 0; r < 4; r++)
			compare(p, STARPU_MAX(rooms[r], most));
	}
}
