package view_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// In a storm of writes cursors are woken now and then, and told everything; after a rest they are woken at once.
func TestPace(t *testing.T) {
	const pace, storm = 2 * time.Millisecond, 1000
	synctest.Test(t, func(t *testing.T) {
		v := view.NewWith(resource.NewSet(maps, nodes), view.Config{Pace: pace})
		v.Replace(maps, 1, nil)
		var wakes, told atomic.Int64
		for _, kinds := range [][]resource.Kind{{maps}, {maps, nodes}, nil} {
			cursor := v.CursorAt(v.Snapshot(), kinds...)
			go func() {
				for {
					b, err := cursor.Next(t.Context())
					if err != nil {
						return
					}
					wakes.Add(1)
					told.Add(int64(len(b.Changes)))
				}
			}()
			synctest.Wait()
		}
		rev := int64(1)
		write := func() {
			rev++
			v.Update(maps, rev, cm("ns", "a", ""), false)
			synctest.Wait() // whoever is awake reads
		}
		for range storm {
			write()
		}
		if told.Load() >= 3*storm || wakes.Load() > 3*20 {
			t.Errorf("in the storm: woken %d times, told %d changes", wakes.Load(), told.Load())
		}
		began := time.Now()
		for told.Load() < 3*storm && time.Since(began) < time.Minute {
			time.Sleep(pace)
			synctest.Wait()
		}
		if told.Load() != 3*storm || time.Since(began) > pace {
			t.Errorf("after it: told %d of %d changes in %v", told.Load(), 3*storm, time.Since(began))
		}
		time.Sleep(time.Second)
		for i := range int64(10) {
			if write(); told.Load() != 3*(storm+i+1) {
				t.Errorf("after a rest: told %d of %d changes", told.Load(), 3*(storm+i+1))
			}
		}
	})
}
