package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kloop-dev/kloop/store"
)

var lists = map[string]func(*probe){
	"ListPrefix": func(p *probe) {
		for _, key := range []string{"/b/2", "/b/1", "/bb", "/a", "/b", "/c/1", "/b/\xff", "/b0"} {
			p.create(key, "v"+key)
		}
		tests := []struct {
			prefix, after string
			want          []string
		}{
			{"/b/", "", []string{"/b/1", "/b/2", "/b/\xff"}},
			{"/b", "", []string{"/b", "/b/1", "/b/2", "/b/\xff", "/b0", "/bb"}},
			{"", "", []string{"/a", "/b", "/b/1", "/b/2", "/b/\xff", "/b0", "/bb", "/c/1"}},
			{"/b/", "/b/1", []string{"/b/2", "/b/\xff"}},
			{"/b/", "/b/1x", []string{"/b/2", "/b/\xff"}},
			{"/b/", "/a", []string{"/b/1", "/b/2", "/b/\xff"}},
			{"/b/", "/c", nil},
			{"/b/\xff", "", []string{"/b/\xff"}},
			{"/x", "", nil},
			{"\xff", "", nil},
		}
		for _, tt := range tests {
			page := p.list(tt.prefix, tt.after, 0, 0)
			if got := keys(page); !slices.Equal(got, tt.want) || page.More || page.Left != 0 {
				p.Errorf("list %q after %q: %q, more %v, left %d; want %q", tt.prefix, tt.after, got, page.More, page.Left, tt.want)
			}
			for _, kv := range page.KVs {
				if !equal(&kv, p.get(kv.Key)) {
					p.Errorf("list shows %v, get %v", kv, p.get(kv.Key))
				}
			}
		}
	},
	"ListEmpty": func(p *probe) {
		if page := p.list("/a", "", 0, 0); page.Rev != p.revision() || len(page.KVs) != 0 {
			p.Errorf("got %v at %d, the store is at %d", page.KVs, page.Rev, p.revision())
		}
	},
	"ListLimit": func(p *probe) {
		for i := range 7 {
			p.create(fmt.Sprint("/a/", i), "1")
		}
		p.create("/b", "1")
		tests := []struct {
			after string
			limit int
			want  []string
			left  int64
		}{
			{"", 3, []string{"/a/0", "/a/1", "/a/2"}, 4},
			{"/a/2", 3, []string{"/a/3", "/a/4", "/a/5"}, 1},
			{"/a/5", 3, []string{"/a/6"}, 0},
			{"/a/6", 3, nil, 0},
			{"", 7, []string{"/a/0", "/a/1", "/a/2", "/a/3", "/a/4", "/a/5", "/a/6"}, 0},
		}
		for _, tt := range tests {
			page := p.list("/a/", tt.after, tt.limit, 0)
			if got := keys(page); !slices.Equal(got, tt.want) || page.Left != tt.left || page.More != (tt.left > 0) {
				p.Errorf("after %q: %q, more %v, left %d; want %q, left %d", tt.after, got, page.More, page.Left, tt.want, tt.left)
			}
		}
	},
	"ListAtRevision": func(p *probe) {
		start := p.revision()
		a := p.create("/a/1", "old")
		b := p.create("/a/2", "deleted later")
		then := p.revision()
		want := p.list("/a/", "", 0, 0)
		p.update("/a/1", "new", a)
		p.delete("/a/2", b)
		p.create("/a/3", "later")
		if page := p.list("/a/", "", 0, then); page.Rev != then || !slices.EqualFunc(page.KVs, want.KVs, same) {
			p.Errorf("at %d: %v at %d, want %v", then, page.KVs, page.Rev, want.KVs)
		}
		if page := p.list("/a/", "", 0, a); !slices.Equal(keys(page), []string{"/a/1"}) {
			p.Errorf("at %d: %v", a, page.KVs)
		}
		if page := p.list("/a/", "", 0, start); len(page.KVs) != 0 {
			p.Errorf("at %d: %v", start, page.KVs)
		}
		if page := p.list("/a/", "", 0, 0); !slices.Equal(keys(page), []string{"/a/1", "/a/3"}) {
			p.Errorf("now: %v", page.KVs)
		}
	},
	"ListFuture": func(p *probe) {
		p.create("/a", "1")
		_, err := p.List(p.ctx, "/a", "", 0, p.revision()+1)
		p.is("list in the future", err, store.ErrFuture)
	},
	// Pages read one after the other while the keys change show what a single read at that revision does.
	"PagesShowOneRevision": func(p *probe) {
		const n = 40
		revs := map[string]int64{}
		for i := range n {
			key := fmt.Sprintf("/a/%03d", i)
			revs[key] = p.create(key, "first")
		}
		var wg sync.WaitGroup
		defer wg.Wait()
		first := p.list("/a/", "", 3, 0)
		wg.Go(func() {
			for i := n - 1; i >= 0; i-- {
				key := fmt.Sprintf("/a/%03d", i)
				if i%2 == 0 {
					p.Write(p.ctx, store.Write{Key: key, Expect: revs[key]})
				} else {
					p.Write(p.ctx, store.Write{Key: key, Value: []byte("second"), Expect: revs[key]})
				}
				p.Write(p.ctx, store.Write{Key: key + "x", Value: []byte("new")})
			}
		})
		all, page := first.KVs, first
		for page.More {
			page = p.list("/a/", all[len(all)-1].Key, 3, first.Rev)
			all = append(all, page.KVs...)
			if page.Rev != first.Rev || len(all)+int(page.Left) != n {
				p.Fatalf("%d keys read and %d left at %d; want %d at %d", len(all), page.Left, page.Rev, n, first.Rev)
			}
		}
		for i, kv := range all {
			if key := fmt.Sprintf("/a/%03d", i); kv.Key != key || string(kv.Value) != "first" || kv.ModRev != revs[key] {
				p.Errorf("key %d is %v", i, kv)
			}
		}
	},
	"ListValuesOfAnySize": func(p *probe) {
		for i := range 20 {
			p.create(fmt.Sprintf("/big/%02d", i), strings.Repeat("x", i*50_000))
		}
		for i, kv := range p.list("/big/", "", 0, 0).KVs {
			if len(kv.Value) != i*50_000 {
				p.Errorf("%s has %d bytes", kv.Key, len(kv.Value))
			}
		}
	},
}

func keys(page store.Page) (keys []string) {
	for _, kv := range page.KVs {
		keys = append(keys, kv.Key)
	}
	return keys
}

func same(a, b store.KV) bool { return equal(&a, &b) }
