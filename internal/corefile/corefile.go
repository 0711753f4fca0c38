// Package corefile reads what people add to the cluster DNS in the ConfigMap kube-system/coredns-custom, in the form that k3s and AKS
// have: keys NAME.override with directives for all names, keys NAME.server with blocks for the names of a zone, in the syntax of
// CoreDNS's configuration (https://coredns.io/manual/toc/#configuration). It knows hosts, forward and rewrite name. What has no meaning
// here, as cache
// and log, is passed over; all else is a fault without effect, which
// Parse reports. Everything here is pure and safe for concurrent use.
package corefile

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"strings"
)

// Where the ConfigMap is.
const (
	Namespace = "kube-system"
	Name      = "coredns-custom"
)

// Bounds of Text: it stands in an annotation, of which an object may have 256 KiB (the API's limit). What is longer than maxPlain is
// packed, which makes room for some 15,000 hosts.
const (
	maxBytes    = 192 << 10
	maxPlain    = 8 << 10
	maxUnpacked = 4 << 20
	packed      = "gzip:"
)

// A Custom holds the part that was understood. The zero value changes nothing.
type Custom struct {
	All   Block   `json:"all,omitzero"`
	Zones []Block `json:"zones,omitempty"`
}

// A Block holds for names of its zones, in this order: names are rewritten, hosts known, others asked. Names are in small letters
// and without a dot at their end.
type Block struct {
	Zones    []string  `json:"zones,omitempty"` // of Custom.All: none
	Rewrites []Rewrite `json:"rewrites,omitempty"`
	Hosts    []Host    `json:"hosts,omitempty"`
	Only     bool      `json:"only,omitempty"` // what Hosts don't know is not asked of others: hosts without fallthrough
	Forwards []Forward `json:"forwards,omitempty"`
}

// A Rewrite has names looked up as another: How is exact, prefix, suffix, substring or regex.
type Rewrite struct {
	How  string `json:"how"`
	From string `json:"from"`
	To   string `json:"to"`
	On   bool   `json:"on,omitempty"` // later rewrites are tried too
}

// A Host is an address and its names.
type Host struct {
	Addr  string   `json:"addr"`
	Names []string `json:"names"`
	TTL   uint32   `json:"ttl"`             // seconds
	NoPTR bool     `json:"noPTR,omitempty"` // the address has no reverse name
}

// A Forward says whom to ask for names below From; "": all. To are ADDRESS:PORT; none: the name servers that are asked for all names.
type Forward struct {
	From string   `json:"from,omitempty"`
	To   []string `json:"to,omitempty"`
}

// A Fault is something that is not understood, and has no effect.
type Fault struct {
	Key  string // of the ConfigMap
	Line int    // of its value, from 1; 0: the whole
	Text string
}

// String names the place and the fault.
func (f Fault) String() string {
	if f.Line == 0 {
		return f.Key + ": " + f.Text
	}
	return fmt.Sprintf("%s line %d: %s", f.Key, f.Line, f.Text)
}

// Summary names the first faults and counts the others.
func Summary(faults []Fault) string {
	const most = 3
	var s []string
	for _, f := range faults[:min(len(faults), most)] {
		s = append(s, f.String())
	}
	if n := len(faults) - most; n > 0 {
		s = append(s, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(s, "; ")
}

// Parse reads the data of the ConfigMap, key by key in their order.
func Parse(data map[string]string) (Custom, []Fault) {
	p := &parser{data: data, used: map[string]bool{}}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		p.key = key
		switch {
		case strings.HasSuffix(key, ".override"):
			for _, d := range p.tree(data[key]) {
				p.directive(&p.out.All, d)
			}
		case strings.HasSuffix(key, ".server"):
			for _, d := range p.tree(data[key]) {
				p.server(d)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if p.key = key; !strings.HasSuffix(key, ".override") && !strings.HasSuffix(key, ".server") && !p.used[key] {
			p.fault(0, "the key ends neither in .override nor in .server, and no hosts directive names it")
		}
	}
	p.key = Name
	if n := len(p.out.Text()); n > maxBytes {
		p.fault(0, "%d bytes remain of it, which is more than the %d that nodes are told: nothing of it is used", n, maxBytes)
		p.out = Custom{}
	}
	sort.SliceStable(p.faults, func(i, j int) bool {
		a, b := p.faults[i], p.faults[j]
		return cmp.Or(strings.Compare(a.Key, b.Key), a.Line-b.Line) < 0
	})
	return p.out, p.faults
}

// Text is the form for agents; "": nothing.
func (c Custom) Text() string {
	data, err := json.Marshal(c)
	if err != nil || string(data) == "{}" {
		return ""
	}
	if len(data) <= maxPlain {
		return string(data)
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		return ""
	}
	if err := w.Close(); err != nil {
		return ""
	}
	return packed + base64.StdEncoding.EncodeToString(out.Bytes())
}

// Read is the other way of Text.
func Read(text string) (c Custom, err error) {
	if text == "" {
		return c, nil
	}
	if len(text) > maxBytes {
		return c, fmt.Errorf("%d bytes, more than %d", len(text), maxBytes)
	}
	code, ok := strings.CutPrefix(text, packed)
	if !ok {
		return c, json.Unmarshal([]byte(text), &c)
	}
	r, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(code)))
	if err != nil {
		return c, fmt.Errorf("unpack what the cluster's people added: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(r, maxUnpacked+1))
	switch {
	case err != nil:
		return c, fmt.Errorf("unpack what the cluster's people added: %w", err)
	case len(data) > maxUnpacked:
		return c, fmt.Errorf("more than %d bytes unpacked", maxUnpacked)
	}
	return c, json.Unmarshal(data, &c)
}
