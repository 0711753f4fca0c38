package etcd_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/etcd"
)

// The lead goes round three members, again and again, while all of them are written to. No write fails or is done twice, and what
// was acknowledged is there: etcd itself loses what is on its way to a member that hands over.
func TestTurnover(t *testing.T) {
	t.Attr("retry", "never")
	t.Parallel()
	var m []*etcd.Store
	for i, s := range seats(t, 3) {
		var host *etcd.Store
		if i > 0 {
			host = m[0]
		}
		m = append(m, s.sit(t, host))
	}
	const turns, writers = 9, 6
	var all sync.WaitGroup
	var enough atomic.Bool
	var wrote [writers]int64
	for w := range wrote {
		all.Go(func() {
			var rev int64
			var err error
			key := fmt.Sprint("/registry/w", w)
			for !enough.Load() {
				value := []byte(fmt.Sprint(wrote[w] + 1))
				if rev, err = m[w%3].Write(t.Context(), store.Write{Key: key, Value: value, Expect: rev}); err != nil {
					t.Errorf("write %d of %s: %v", wrote[w]+1, key, err)
					return
				}
				wrote[w]++
			}
		})
	}
	for i := range turns * 3 { // only the one that leads hands over
		if err := m[i%3].HandOver(); err != nil {
			t.Logf("hand over: %v", err)
		}
	}
	enough.Store(true)
	all.Wait()
	for w, n := range wrote {
		kv, _, err := m[2].Get(t.Context(), fmt.Sprint("/registry/w", w))
		if err != nil || kv == nil || string(kv.Value) != fmt.Sprint(n) {
			t.Errorf("writer %d wrote %d, and there is %v, %v", w, n, kv, err)
		}
	}
	t.Logf("%v writes", wrote)
}
