package dns

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// routes says which name servers know a name: those of the longest stub domain that it lies in, else the upstreams.
type routes struct {
	stubs []route // longest first
	rest  *upstreams
}

type route struct {
	domain string
	to     *upstreams
}

// of returns the name servers for a name.
func (r routes) of(name string) *upstreams {
	for _, s := range r.stubs {
		if within(name, s.domain) {
			return s.to
		}
	}
	return r.rest
}

// within says that a name is a domain's or lies below it; "" is the domain of all names.
func within(name, domain string) bool {
	rest, ok := strings.CutSuffix(name, domain)
	return ok && (domain == "" || rest == "" || strings.HasSuffix(rest, "."))
}

// routes reads the configuration.
func (c *Config) routes() (r routes, err error) {
	r.rest = &upstreams{file: c.ResolvConf}
	if len(c.Upstreams) > 0 {
		r.rest = &upstreams{fixed: c.Upstreams}
	}
	for domain, servers := range c.Stubs {
		s := route{strings.ToLower(strings.Trim(domain, ".")), &upstreams{}}
		if s.domain == "" || len(servers) == 0 {
			return r, fmt.Errorf("stub domain %q: use DOMAIN=ADDRESS or DOMAIN=ADDRESS:PORT", domain)
		}
		for _, text := range servers {
			a, err := ParseServer(text)
			if err != nil {
				return r, fmt.Errorf("stub domain %s: %w", domain, err)
			}
			s.to.fixed = append(s.to.fixed, a)
		}
		r.stubs = append(r.stubs, s)
	}
	r.sort()
	return r, nil
}

// sort puts the longest domain first.
func (r routes) sort() {
	coldsort.StableFunc(r.stubs, func(a, b route) int {
		if n := len(b.domain) - len(a.domain); n != 0 {
			return n
		}
		return strings.Compare(a.domain, b.domain)
	})
}

// ParseServer reads a name server's address, with or without a port.
func ParseServer(text string) (netip.AddrPort, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(a, 53), nil
	}
	a, err := netip.ParseAddrPort(text)
	if err != nil {
		return a, fmt.Errorf("name server %q: use ADDRESS or ADDRESS:PORT", text)
	}
	return a, nil
}

// upstreams are name servers: fixed ones, or those of a resolv.conf, which is read again when it changes.
type upstreams struct {
	fixed []netip.AddrPort
	file  string

	mu      sync.Mutex
	read    []netip.AddrPort
	looked  time.Time
	changed time.Time // of the file that read is of; zero: it is to be read
	size    int64
}

// lookEvery is the pause between two looks at the time of the file.
const lookEvery = 5 * time.Second

func (u *upstreams) servers() []netip.AddrPort {
	if u.file == "" {
		return u.fixed
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if time.Since(u.looked) < lookEvery {
		return u.read
	}
	u.looked = time.Now()
	info, err := os.Stat(u.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		u.read, u.changed = nil, time.Time{}
	case err != nil || info.ModTime().Equal(u.changed) && info.Size() == u.size:
	default:
		list, err := nameServers(u.file)
		if err != nil {
			break // those of before are better than none
		}
		u.read, u.changed, u.size = list, info.ModTime(), info.Size()
		if len(list) == 0 { // it may be half written, within one tick of the file system's clock
			u.changed = time.Time{}
		}
	}
	return u.read
}

// nameServers reads the servers of a resolv.conf.
func nameServers(path string) (list []netip.AddrPort, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	for in.Scan() {
		words := strings.Fields(in.Text())
		if len(words) < 2 || words[0] != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(words[1]); err == nil {
			list = append(list, netip.AddrPortFrom(a, 53))
		}
	}
	return list, in.Err()
}
