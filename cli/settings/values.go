package settings

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

type text struct{ p *string }

func (v text) set(s string) error { *v.p = s; return nil }
func (v text) text() string       { return *v.p }
func (v text) shape() shape       { return scalar }

type number struct{ p *int }

func (v number) set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil {
		return fmt.Errorf("%q is not a number", s)
	}
	*v.p = n
	return nil
}
func (v number) text() string { return strconv.Itoa(*v.p) }
func (v number) shape() shape { return scalar }

type yes struct{ p *bool }

func (v yes) set(s string) (err error) {
	if *v.p, err = strconv.ParseBool(s); err != nil {
		return fmt.Errorf("%q is neither true nor false", s)
	}
	return nil
}
func (v yes) text() string { return strconv.FormatBool(*v.p) }
func (v yes) shape() shape { return truth }

// no is a setting whose field says the opposite.
type no struct{ p *bool }

func (v no) set(s string) error {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return fmt.Errorf("%q is neither true nor false", s)
	}
	*v.p = !b
	return nil
}
func (v no) text() string { return strconv.FormatBool(!*v.p) }
func (v no) shape() shape { return truth }

type span struct{ p *time.Duration }

func (v span) set(s string) error {
	if s == "" {
		*v.p = 0
		return nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%q is not a duration like 500ms, 40s or 2m", s)
	}
	*v.p = d
	return nil
}

func (v span) text() string {
	if *v.p == 0 {
		return ""
	}
	return v.p.String()
}
func (v span) shape() shape { return scalar }

type words struct{ p *[]string }

func (v words) set(s string) error { *v.p = split(s); return nil }
func (v words) text() string       { return strings.Join(*v.p, ",") }
func (v words) shape() shape       { return list }

func split(s string) (out []string) {
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func parsePrefix(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, fmt.Errorf("%q is not a range of addresses like 10.96.0.0/16", s)
	}
	return p.Masked(), nil
}

type address struct{ p *netip.Addr }

func (v address) set(s string) error {
	if s == "" {
		*v.p = netip.Addr{}
		return nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return fmt.Errorf("%q is not an IP address", s)
	}
	*v.p = a
	return nil
}

func (v address) text() string {
	if !v.p.IsValid() {
		return ""
	}
	return v.p.String()
}
func (v address) shape() shape { return scalar }

type addresses struct{ p *[]netip.Addr }

func (v addresses) set(s string) error {
	var all []netip.Addr
	for _, part := range split(s) {
		a, err := netip.ParseAddr(part)
		if err != nil {
			return fmt.Errorf("%q is not an IP address", part)
		}
		all = append(all, a)
	}
	*v.p = all
	return nil
}

func (v addresses) text() string {
	var all []string
	for _, a := range *v.p {
		all = append(all, a.String())
	}
	return strings.Join(all, ",")
}
func (v addresses) shape() shape { return list }

type prefixes struct{ p *[]netip.Prefix }

func (v prefixes) set(s string) error {
	var all []netip.Prefix
	for _, part := range split(s) {
		p, err := parsePrefix(part)
		if err != nil {
			return err
		}
		all = append(all, p)
	}
	*v.p = all
	return nil
}

func (v prefixes) text() string {
	var all []string
	for _, p := range *v.p {
		all = append(all, p.String())
	}
	return strings.Join(all, ",")
}
func (v prefixes) shape() shape { return list }

// ports is a range of ports: LOW-HIGH, or LOW+COUNT as upstream also takes.
type ports struct{ low, high *int32 }

func (v ports) set(s string) error {
	wrong := fmt.Errorf("%q is not a range of ports like 30000-32767", s)
	a, b, ok := strings.Cut(s, "-")
	plus := false
	if !ok {
		if a, b, plus = strings.Cut(s, "+"); !plus {
			b = a
		}
	}
	low, err := strconv.ParseUint(strings.TrimSpace(a), 10, 16)
	if err != nil {
		return wrong
	}
	high, err := strconv.ParseUint(strings.TrimSpace(b), 10, 16)
	if err != nil {
		return wrong
	}
	if plus {
		high += low
	}
	*v.low, *v.high = int32(low), int32(high)
	return nil
}
func (v ports) text() string { return fmt.Sprintf("%d-%d", *v.low, *v.high) }
func (v ports) shape() shape { return scalar }

type gates struct{ p *map[string]bool }

func (v gates) set(s string) error {
	all := map[string]bool{}
	for _, part := range split(s) {
		name, on, ok := strings.Cut(part, "=")
		b, err := strconv.ParseBool(on)
		if !ok || err != nil {
			return fmt.Errorf("%q: use NAME=true or NAME=false", part)
		}
		all[name] = b
	}
	*v.p = all
	return nil
}

func (v gates) text() string {
	var all []string
	for name, on := range *v.p {
		all = append(all, fmt.Sprintf("%s=%t", name, on))
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}
func (v gates) shape() shape { return mapping }

// switches is like gates, and a name alone is on.
type switches struct{ p *map[string]bool }

func (v switches) set(s string) error {
	parts := split(s)
	for i, part := range parts {
		if name, on, _ := strings.Cut(part, "="); on == "" {
			parts[i] = name + "=true"
		}
	}
	err := gates(v).set(strings.Join(parts, ","))
	if err == nil && len(parts) == 0 {
		*v.p = nil
	}
	return err
}
func (v switches) text() string { return gates(v).text() }
func (v switches) shape() shape { return mapping }

type pairs struct{ p *map[string]string }

func (v pairs) set(s string) error {
	all := map[string]string{}
	for _, part := range split(s) {
		name, value, ok := strings.Cut(part, "=")
		if !ok || name == "" {
			return fmt.Errorf("%q: use NAME=VALUE", part)
		}
		all[name] = value
	}
	if *v.p = nil; len(all) > 0 {
		*v.p = all
	}
	return nil
}

func (v pairs) text() string {
	var all []string
	for name, value := range *v.p {
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}
func (v pairs) shape() shape { return mapping }
