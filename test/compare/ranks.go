package main

import (
	"slices"
	"strings"
)

// ranks are the sorts of differences, those that matter most to a client first. The first that fits a difference is its own.
var ranks = []struct {
	name string
	fits func(d string) bool
}{
	{"code", begins("code ")},
	{"warnings", begins("warning")},
	{"causes", begins("causes ")},
	{"reason and details", begins("reason ", "details.")},
	{"order of causes", begins("order ")},
	{"words", begins("text ")},
	{"words of a dump", begins("dump ")},
	{"owners", has(".managedFields")},
	{"tables", has(".columnDefinitions", ".rows")},
	{"answers that the first broke off", begins("broken off ")},
	{"bodies", begins("")},
}

func begins(words ...string) func(string) bool {
	return func(d string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(d, w) })
	}
}

func has(words ...string) func(string) bool {
	return func(d string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(d, w) })
	}
}

// rank is the index of a difference's sort.
func rank(d string) int {
	for i, r := range ranks {
		if r.fits(d) {
			return i
		}
	}
	return len(ranks) - 1
}

// dumps begin whole values in messages: Go prints them in types that one of two servers alone has.
var dumps = []string{"\n", "core.", "&core", "{TypeMeta:", "(*", "v1."}

// beforeDump cuts a message where it begins to show whole values.
func beforeDump(message string) string {
	for _, mark := range dumps {
		message, _, _ = strings.Cut(message, mark)
	}
	return message
}
