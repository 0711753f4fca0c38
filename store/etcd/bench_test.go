package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/etcd"
)

// valueSize is that of a small pod, in bytes.
const valueSize = 1500

// Writes by 1, 16 and 64 writers at once, each updating keys of its own under optimistic concurrency.
func BenchmarkWrite(b *testing.B) {
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s := open(b, b.TempDir())
			var next atomic.Int64
			b.ResetTimer()
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					revs, value := make([]int64, 100), make([]byte, valueSize)
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						i := n % 100
						rev, err := s.Write(b.Context(), store.Write{Key: fmt.Sprintf("/registry/pods/ns-%d/pod-%d", w, i), Value: value, Expect: revs[i]})
						if err != nil {
							b.Error(err)
							return
						}
						revs[i] = rev
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
		})
	}
}

// Events are written with a lifetime: they share leases.
func BenchmarkWriteWithTTL(b *testing.B) {
	s := open(b, b.TempDir())
	value, n := make([]byte, 800), atomic.Int64{}
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			key := fmt.Sprint("/registry/events/default/e", n.Add(1))
			if _, err := s.Write(b.Context(), store.Write{Key: key, Value: value, TTL: time.Hour}); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
}

// From the call of Write to the watch's event, with one write at a time.
func BenchmarkWriteToWatch(b *testing.B) {
	s := open(b, b.TempDir())
	start, err := s.Revision(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	told := make(chan int64, 1)
	go s.Watch(ctx, "/registry/", start, func(batch store.Batch) error {
		told <- batch.Rev
		return nil
	})
	value, rev := make([]byte, valueSize), int64(0)
	for b.Loop() {
		if rev, err = s.Write(b.Context(), store.Write{Key: "/registry/pods/a", Value: value, Expect: rev}); err != nil {
			b.Fatal(err)
		}
		for <-told < rev {
		}
	}
}

// How far a watch is behind the acknowledgements of 64 writers that write as fast as they can.
func BenchmarkWatchUnderLoad(b *testing.B) {
	s := open(b, b.TempDir())
	start, err := s.Revision(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	last := start + int64(b.N)
	acked, told := make([]time.Time, b.N+1), make([]time.Time, b.N+1)
	done := make(chan error, 1)
	complete := errors.New("complete")
	go func() {
		done <- s.Watch(b.Context(), "/registry/", start, func(batch store.Batch) error {
			for _, e := range batch.Events {
				told[e.Rev-start] = time.Now()
			}
			if batch.Rev >= last {
				return complete
			}
			return nil
		})
	}()
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 64 {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				rev, err := s.Write(b.Context(), store.Write{Key: fmt.Sprint("/registry/pods/", n), Value: make([]byte, valueSize)})
				if err != nil {
					b.Error(err)
					return
				}
				acked[rev-start] = time.Now()
			}
		})
	}
	wg.Wait()
	if err := <-done; err != complete {
		b.Fatal(err)
	}
	lags := make([]float64, 0, b.N)
	for i := 1; i <= b.N; i++ {
		lags = append(lags, told[i].Sub(acked[i]).Seconds()*1000)
	}
	slices.Sort(lags)
	b.ReportMetric(lags[len(lags)/2], "ms-p50")
	b.ReportMetric(lags[len(lags)*99/100], "ms-p99")
}

func BenchmarkGet(b *testing.B) {
	s := open(b, b.TempDir())
	s.Write(b.Context(), store.Write{Key: "/registry/pods/a", Value: make([]byte, valueSize)})
	for b.Loop() {
		if _, _, err := s.Get(b.Context(), "/registry/pods/a"); err != nil {
			b.Fatal(err)
		}
	}
}

// From nothing, or from a directory with 10,000 writes, to the first write acknowledged.
func BenchmarkStart(b *testing.B) {
	b.Run("fresh", func(b *testing.B) {
		for range b.N {
			first(b, b.TempDir())
		}
	})
	b.Run("again", func(b *testing.B) {
		dir := b.TempDir()
		s := open(b, dir)
		var wg sync.WaitGroup
		for w := range 64 {
			wg.Go(func() {
				for i := range 10_000 / 64 {
					s.Write(b.Context(), store.Write{Key: fmt.Sprintf("/registry/pods/%d/%d", w, i), Value: make([]byte, valueSize)})
				}
			})
		}
		wg.Wait()
		s.Close()
		b.ResetTimer()
		for range b.N {
			first(b, dir)
		}
	})
}

func first(b *testing.B, dir string) {
	s, err := etcd.Open(b.Context(), etcd.Config{Dir: dir, Log: quiet(b)})
	if err != nil {
		b.Fatal(err)
	}
	key := fmt.Sprint("/first/", time.Now().UnixNano())
	if _, err := s.Write(b.Context(), store.Write{Key: key, Value: []byte("x")}); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	s.Close()
	b.StartTimer()
}

// What a store costs that nobody uses, in percent of a core, with a watch like the view's.
func BenchmarkIdle(b *testing.B) {
	s := open(b, b.TempDir())
	go s.Watch(b.Context(), "/registry/", 0, func(store.Batch) error { return nil })
	s.Write(b.Context(), store.Write{Key: "/registry/a", Value: []byte("x")})
	for b.Loop() {
		before, start := cpu(b), time.Now()
		<-time.After(5 * time.Second)
		b.ReportMetric(100*float64(cpu(b)-before)/float64(time.Since(start)), "%core")
	}
}

// cpu is the processor time that this process has used.
func cpu(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
