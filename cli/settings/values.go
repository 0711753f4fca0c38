package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/strict"
)

type text struct{ p *string }

func (v text) set(s string) error { *v.p = s; return nil }
func (v text) text() string       { return *v.p }
func (v text) shape() shape       { return scalar }

// choice is one of some words, or nothing.
type choice struct {
	p   *string
	all string // with blanks between them
}

func (v choice) set(s string) error {
	known := strings.Fields(v.all)
	i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, s) })
	if s != "" && i < 0 {
		return fmt.Errorf("%q is none of %s%s", s, strings.Join(known, ", "), strict.Meant(s, known))
	}
	if *v.p = s; i >= 0 {
		*v.p = known[i]
	}
	return nil
}
func (v choice) text() string { return *v.p }
func (v choice) shape() shape { return scalar }

// socket is that of a CRI runtime, as the kubelet takes it: unix:///PATH, or the path alone.
type socket struct{ p *string }

func (v socket) set(s string) (err error) {
	*v.p, err = Socket(s)
	return err
}

func (v socket) text() string {
	if *v.p == "" {
		return ""
	}
	return unix + *v.p
}
func (v socket) shape() shape { return scalar }

const unix = "unix://"

// Socket is the path of a runtime's endpoint; "" is none.
func Socket(endpoint string) (string, error) {
	path := strings.TrimPrefix(endpoint, unix)
	if path != "" && !filepath.IsAbs(path) {
		return "", fmt.Errorf("%q: want the socket of a CRI runtime, as unix:///run/containerd/containerd.sock", endpoint)
	}
	return path, nil
}

// file is the name of one that must be there.
type file struct{ p *string }

func (v file) set(s string) error {
	if err := Readable(s); err != nil {
		return err
	}
	*v.p = s
	return nil
}
func (v file) text() string { return *v.p }
func (v file) shape() shape { return scalar }

// files are several.
type files struct{ p *[]string }

func (v files) set(s string) error {
	for _, path := range split(s) {
		if err := Readable(path); err != nil {
			return err
		}
	}
	return stringList(v).set(s)
}
func (v files) text() string { return stringList(v).text() }
func (v files) shape() shape { return list }

// Readable says why there can be no file to be read; "" names none. Permissions are not looked at: another user may be to read it.
func Readable(path string) error {
	info, err := os.Stat(path)
	switch {
	case path == "":
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no file %s", path)
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a directory, and a file is wanted", path)
	}
	return nil
}

// endpoint is host:port, or nothing.
type endpoint struct{ p *string }

func (v endpoint) set(s string) error {
	if err := Endpoint(s); s != "" && err != nil {
		return err
	}
	*v.p = s
	return nil
}
func (v endpoint) text() string { return *v.p }
func (v endpoint) shape() shape { return scalar }

// Endpoint says why a text is not host:port.
func Endpoint(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%q is not host:port, as 127.0.0.1:6443 or :6443", s)
	}
	return nil
}

// number is one that counts something.
type number struct{ p *int }

func (v number) set(s string) error { return whole(v.p, s, 0) }
func (v number) text() string       { return strconv.Itoa(*v.p) }
func (v number) shape() shape       { return scalar }

// limit is a number, or -1 for none.
type limit struct{ number }

func (v limit) set(s string) error { return whole(v.p, s, -1) }

func whole(p *int, s string, least int) error {
	n, err := strconv.Atoi(s)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not a number", s)
	case n < least:
		return fmt.Errorf("%d: use %d or more", n, least)
	}
	*p = n
	return nil
}

type boolean struct{ p *bool }

func (v boolean) set(s string) (err error) {
	if *v.p, err = strconv.ParseBool(s); err != nil {
		return fmt.Errorf("%q is neither true nor false", s)
	}
	return nil
}
func (v boolean) text() string { return strconv.FormatBool(*v.p) }
func (v boolean) shape() shape { return truth }

// negated is a setting whose field says the opposite.
type negated struct{ p *bool }

func (v negated) set(s string) error {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return fmt.Errorf("%q is neither true nor false", s)
	}
	*v.p = !b
	return nil
}
func (v negated) text() string { return strconv.FormatBool(!*v.p) }
func (v negated) shape() shape { return truth }

type period struct{ p *time.Duration }

func (v period) set(s string) error {
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

func (v period) text() string {
	if *v.p == 0 {
		return ""
	}
	return v.p.String()
}
func (v period) shape() shape { return scalar }

type stringList struct{ p *[]string }

func (v stringList) set(s string) error { *v.p = split(s); return nil }
func (v stringList) text() string       { return strings.Join(*v.p, ",") }
func (v stringList) shape() shape       { return list }

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
