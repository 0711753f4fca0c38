package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// runtimeCPU measures a runtime with its files below a directory, in seconds of CPU: the daemon, its shims, and the programs that
// they ran and waited for (runc, network plugins). Unlike a time it says the same on a machine that is busy. Shims that ended
// are missing: compare while the pods run.
func runtimeCPU(dir string) (sum float64) {
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline") // fails on bad patterns only
	for _, p := range procs {
		text, err := os.ReadFile(p)
		if err != nil || !bytes.Contains(text, []byte("containerd")) || !bytes.Contains(text, []byte(dir+"/")) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(filepath.Dir(p), "stat"))
		if err != nil {
			continue // it ended
		}
		_, after, _ := strings.Cut(string(data), ") ")
		f := strings.Fields(after)
		for i := 11; i <= 14 && i < len(f); i++ { // utime stime cutime cstime
			n, _ := strconv.ParseFloat(f[i], 64)
			sum += n / ticks
		}
	}
	return sum
}

// calls reads the number of calls of the runtime that the agent has counted.
func (n *node) calls(ctx context.Context) (sum float64, err error) {
	text, err := n.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/bench/proxy/metrics").DoRaw(ctx)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "kubelet_runtime_operations_total{"); ok {
			var one float64
			if _, value, ok := strings.Cut(rest, "} "); ok {
				if _, err := fmt.Sscan(value, &one); err != nil {
					return 0, err
				}
			}
			sum += one
		}
	}
	return sum, err
}
