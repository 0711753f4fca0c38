package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
)

// allocated reads how many bytes the server has allocated since it began, and how often, by its runtime's own count. They hardly vary
// where times do. Only own kloops with --profiles tell; of others both are 0.
func (b *bench) allocated(ctx context.Context) (bytes, count float64) {
	if b.pprof == "" {
		return 0, 0
	}
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+b.pprof+"/debug/pprof/allocs?debug=1", nil)
	if err != nil {
		return 0, 0
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, 0
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " = ")
		switch name {
		case "# TotalAlloc":
			fmt.Sscan(value, &bytes)
		case "# Mallocs":
			fmt.Sscan(value, &count)
		}
	}
	return bytes, count
}

// meter begins to count what the server allocates; what it returns notes it for each of n operations.
func (b *bench) meter(ctx context.Context, name string) (end func(n int)) {
	bytes, count := b.allocated(ctx)
	return func(n int) {
		if bytes > 0 {
			now, times := b.allocated(ctx)
			b.figure(name+", allocated", (now-bytes)/float64(n)/1024, "KiB")
			b.figure(name+", allocations", (times-count)/float64(n), "")
		}
	}
}
