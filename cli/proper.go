package cli

import (
	"flag"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kloop-dev/kloop/cli/settings"
	"github.com/kloop-dev/kloop/node/runtime"
	"github.com/kloop-dev/kloop/past"
	"github.com/kloop-dev/kloop/strict"
)

// proper says what a command's own flag may not be, by its kind and its name: a name means the same everywhere. Settings have rules of
// their own.
func proper(f *flag.Flag) error {
	if list, ok := f.Value.(*words); ok {
		return each(rules[f.Name], *list)
	}
	got, ok := f.Value.(flag.Getter)
	if !ok {
		return nil
	}
	switch v := got.Get().(type) {
	case time.Duration:
		if v <= 0 {
			return fmt.Errorf("%s: use a time above zero, as 30s or 2h", v)
		}
	case int:
		if v < 0 || f.Name == "port" && v > 65535 {
			return fmt.Errorf("%d: use %s", v, map[bool]string{true: "a port, 0 to 65535", false: "0 or more"}[f.Name == "port"])
		}
	case string:
		if v != "" {
			return each(rules[f.Name], []string{v})
		}
	}
	return nil
}

func each(rule func(string) error, list []string) error {
	for _, v := range list {
		if rule == nil {
			break
		}
		if err := rule(v); err != nil {
			return err
		}
	}
	return nil
}

// rules are those for texts, by the names of flags.
var rules = map[string]func(string) error{
	"server": serverURL, "listen": settings.Endpoint, "from": settings.Readable, "kubeconfig": settings.Readable,
	"config": settings.Readable, "since": moment, "until": moment, "at": moment,
	"address": addressList, "pod-cidr": rangeList, "name": subdomain, "node": subdomain, "namespace": label, "n": label,
	"log": among("debug", "info", "warn", "error"), "p": printing, "print": printing, "arch": among("amd64", "arm64"), "port": portOf,
	"env":     assigned,
	"ca-hash": caHash,
	"to":      func(text string) error { _, err := parseTarget("", text); return err },
	"ref":     func(text string) error { _, err := runtime.FullName(text); return err },
}

var printing = among("path", "env", "overview")

func assigned(text string) error {
	if name, _, ok := strings.Cut(text, "="); !ok || name == "" {
		return fmt.Errorf("%q is not NAME=VALUE", text)
	}
	return nil
}

// portOf is a port of an image.
func portOf(text string) error {
	number, protocol, _ := strings.Cut(text, "/")
	if n, err := strconv.ParseUint(number, 10, 16); err != nil || n == 0 || !slices.Contains([]string{"", "tcp", "udp", "sctp"}, protocol) {
		return fmt.Errorf("%q is not PORT, PORT/tcp or PORT/udp", text)
	}
	return nil
}

func among(known ...string) func(string) error {
	return func(text string) error {
		if slices.Contains(known, text) {
			return nil
		}
		return fmt.Errorf("%q is none of %s%s", text, strings.Join(known, ", "), strict.Meant(text, known))
	}
}

// caHash is the hash of an authority's public key.
func caHash(text string) error {
	if sum, ok := strings.CutPrefix(text, "sha256:"); !ok || len(sum) != 64 || strings.Trim(sum, "0123456789abcdef") != "" {
		return fmt.Errorf("%q is not sha256: and 64 hexadecimal digits", text)
	}
	return nil
}

func serverURL(text string) error {
	if u, err := url.Parse(text); err != nil || u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%q is not https://host:port", text)
	}
	return nil
}

func moment(text string) error {
	_, err := past.When(text, time.Now())
	return err
}

func addressList(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		if _, err := netip.ParseAddr(part); err != nil {
			return fmt.Errorf("%q is not an IP address", part)
		}
	}
	return nil
}

func rangeList(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		if _, err := netip.ParsePrefix(part); err != nil {
			return fmt.Errorf("%q is not a range of addresses like 10.88.1.0/24", part)
		}
	}
	return nil
}

func subdomain(text string) error { return saying(text, validation.IsDNS1123Subdomain(text)) }

func label(text string) error { return saying(text, validation.IsDNS1123Label(text)) }

func saying(text string, wrong []string) error {
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%q is no name: use lower case letters, digits and -", text)
}

// improper tells of the first flag given that may not be what it is.
func improper(fs *flag.FlagSet) (err error) {
	fs.Visit(func(f *flag.Flag) {
		if f.Name == "kubeconfig" && fs.Name() == "kloop create" {
			return // it is written
		}
		if wrong := proper(f); wrong != nil && err == nil {
			err = fmt.Errorf("%s: %w", dashes(f.Name), wrong)
		}
	})
	return err
}

// unread words what package flag says of a value that is not even of its flag's kind.
func unread(fs *flag.FlagSet, text string) string {
	value, rest, ok := strings.Cut(strings.TrimPrefix(text, "invalid value "), " for flag -")
	if boolean, is := strings.CutPrefix(text, "invalid boolean value "); is {
		value, rest, ok = strings.Cut(boolean, " for -")
	}
	name, why, _ := strings.Cut(rest, ": ")
	f := fs.Lookup(name)
	if !ok || f == nil {
		return text
	}
	if got, is := f.Value.(flag.Getter); is {
		switch got.Get().(type) {
		case time.Duration:
			why = "use a time, as 30s or 2h"
		case int:
			why = "use a number"
		case bool:
			why = "use true or false"
		}
	}
	return fmt.Sprintf("%s %s: %s", dashes(name), value, why)
}
