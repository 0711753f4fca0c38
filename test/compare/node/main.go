// Command node plays the same pods on two clusters of one node each and says where the two node agents differ: by the status of the pods at
// the end and on the way, by events, by what containers see, and by what the agents answer.
//
//	go run ./test/compare/node A.kubeconfig B.kubeconfig [-scenarios FILE] [-run PATTERN]
//
// A is taken for right: `kloop up --node none` with a kubelet beside it. B is `kloop up --node real`. Each has a network namespace.
// Both nodes have the name node, so that texts with it are the same, containerds of one version, and in them the images that the scenarios
// name; they need no registry. What the scenarios of claims need on each machine is written above them. Where there is no cgroup v2 the
// kubelet wants failCgroupV1: false. Somebody has to approve the serving certificate that it asks for, since it shares its address with the
// API. All pods begin with the first document of the file.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"sync"
)

func main() {
	file := flag.String("scenarios", "test/compare/node/scenarios.yaml", "what is played")
	run := flag.String("run", "", "regular expression over names of scenarios")
	workers := flag.Int("workers", 6, "scenarios at once")
	all := flag.Bool("all", false, "print what both clusters say, too")
	flag.Parse()
	log.SetFlags(0)
	if flag.NArg() != 2 {
		log.Fatal("usage: node [flags] A.kubeconfig B.kubeconfig")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := compare(ctx, *file, *run, *workers, *all); err != nil {
		log.Fatal(err)
	}
}

func compare(ctx context.Context, file, run string, workers int, all bool) error {
	only, err := regexp.Compile(run)
	if err != nil {
		return err
	}
	scenarios, err := readScenarios(file)
	if err != nil {
		return err
	}
	scenarios = slices.DeleteFunc(scenarios, func(s scenario) bool { return !only.MatchString(s.Name) })
	var pair [2]*cluster
	for i := range pair {
		if pair[i], err = newCluster(flag.Arg(i)); err != nil {
			return err
		}
	}
	differ := playAll(ctx, pair, scenarios, workers, all, os.Stdout)
	fmt.Printf("%d scenarios, %d played differently\n", len(scenarios), differ)
	return ctx.Err()
}

// playAll plays each scenario on both clusters at once and prints what is different; it returns of how many something was.
func playAll(ctx context.Context, pair [2]*cluster, scenarios []scenario, workers int, all bool, to io.Writer) int {
	work := make(chan scenario)
	var running sync.WaitGroup
	var printing sync.Mutex
	differ := 0
	for range workers {
		running.Go(func() {
			for s := range work {
				found := playBoth(ctx, pair, s, all)
				printing.Lock()
				if len(found) > 0 {
					differ++
				}
				fmt.Fprintf(to, "=== %s\n", s.Name)
				for _, line := range found {
					fmt.Fprintln(to, line)
				}
				printing.Unlock()
			}
		})
	}
	for _, s := range scenarios {
		if ctx.Err() != nil {
			break
		}
		work <- s
	}
	close(work)
	running.Wait()
	return differ
}

// playBoth plays a scenario on both clusters.
func playBoth(ctx context.Context, pair [2]*cluster, s scenario, all bool) []string {
	var both sync.WaitGroup
	var told [2]record
	for i, c := range pair {
		both.Go(func() { told[i] = c.play(ctx, s) })
	}
	both.Wait()
	return differences(told[0], told[1], all)
}

// differences are the lines that one record has and the other has not, by their labels in order.
func differences(a, b record, all bool) (found []string) {
	for i := range max(len(a), len(b)) {
		var left, right entry
		if i < len(a) {
			left = a[i]
		}
		if i < len(b) {
			right = b[i]
		}
		label := cmp.Or(left.label, right.label)
		if all {
			found = append(found, "  "+label+" (both):")
			for _, l := range left.lines {
				found = append(found, "      "+l)
			}
		}
		here := append(missing("    - ", left.lines, right.lines), missing("    + ", right.lines, left.lines)...)
		if len(here) > 0 {
			found = append(append(found, "  "+label+":"), here...)
		}
	}
	return found
}

func missing(mark string, of, in []string) (lines []string) {
	for _, l := range of {
		if !slices.Contains(in, l) {
			lines = append(lines, mark+l)
		}
	}
	return lines
}
