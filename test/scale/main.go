// Command scale holds a very large cluster in one process, without HTTP, and tells what it costs:
//
//	go run ./test/scale --nodes 100000 --pods 1000000 --next 1000
//
// The nodes and pods are loaded into a store in memory as they would stand there after they were made, scheduled and
// started; then all loops, the scheduler and the simulated nodes start on them. When they have come to rest it takes
// the process's memory and its CPU at rest, and the time until the next pods are made, bound and ready.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"
)

func main() {
	nodes := flag.Int("nodes", 10_000, "simulated nodes")
	pods := flag.Int("pods", 100_000, "pods on them")
	next := flag.Int("next", 1000, "pods to schedule then")
	rest := flag.Duration("rest", 30*time.Second, "how long to watch the process at rest")
	gc := flag.Int("gc", 25, "the garbage collector's target, as GOGC")
	flag.Parse()
	debug.SetGCPercent(*gc)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *nodes, *pods, *next, *rest); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, nodes, pods, next int, rest time.Duration) error {
	ctx, stop := context.WithCancel(ctx)
	h := &house{}
	defer func() { stop(); h.all.Wait() }()
	if err := h.open(ctx); err != nil {
		return err
	}
	began := time.Now()
	if err := h.load(ctx, nodes, pods); err != nil {
		return err
	}
	say("%d nodes and %d pods loaded in %.1f s; %s", nodes, pods, time.Since(began).Seconds(), footprint())
	began, used := time.Now(), cpu()
	h.work(ctx)
	if err := h.calm(ctx); err != nil {
		return err
	}
	say("loops at rest %.1f s after their start, %.1f s of CPU; %s", time.Since(began).Seconds(), (cpu() - used).Seconds(), footprint())
	used = cpu()
	select {
	case <-time.After(rest):
	case <-ctx.Done():
		return ctx.Err()
	}
	say("at rest: %.2f %% of a core over %s; %s", 100*(cpu()-used).Seconds()/rest.Seconds(), rest, footprint())
	began, used = time.Now(), cpu()
	if err := h.more(ctx, next); err != nil {
		return err
	}
	say("the next %d pods made, bound and ready in %.2f s, %.2f s of CPU; %s", next, time.Since(began).Seconds(),
		(cpu() - used).Seconds(), footprint())
	return nil
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// cpu returns the processor time that the process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// footprint returns the memory that the process has now, and had at most.
func footprint() string {
	var rss, peak int
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "memory unknown"
	}
	for line := range lines(string(data)) {
		_, _ = fmt.Sscanf(line, "VmRSS: %d", &rss)
		_, _ = fmt.Sscanf(line, "VmHWM: %d", &peak)
	}
	return fmt.Sprintf("%.2f GiB resident, %.2f at most", float64(rss)/(1<<20), float64(peak)/(1<<20))
}
