package features

import (
	"strconv"
	"strings"
	"sync"
)

// A Stage is the maturity of a feature.
type Stage string

// The stages, as upstream's metric kubernetes_feature_enabled names them.
const (
	Alpha      Stage = "ALPHA"
	Beta       Stage = "BETA"
	GA         Stage = ""
	Deprecated Stage = "DEPRECATED"
)

// allOf names the gate that switches all of a stage.
var allOf = map[Stage]string{Alpha: "AllAlpha", Beta: "AllBeta"}

// A Gate is a feature gate as it is in one version.
type Gate struct {
	Stage   Stage
	Default bool
	Locked  bool // it can't be switched
	Honours bool // kloop does what it says, on or off; others are known by name
	Absent  bool // upstream has it on, and kloop has nothing of it
}

// Does says whether kloop does what the gate stands for, where it was asked to be on or off.
func (g Gate) Does(on bool) bool {
	if g.Honours {
		return on
	}
	return g.Default && !g.Absent
}

// Known are upstream's gates in a version, by name. The map is shared.
func Known(minor int) map[string]Gate { return byVersion()[minor-Oldest] }

// byVersion reads the table once: the gates of the oldest version first.
var byVersion = sync.OnceValue(func() []map[string]Gate {
	all := make([]map[string]Gate, Newest-Oldest+1)
	for i := range all {
		all[i] = map[string]Gate{"AllAlpha": {Stage: Alpha}, "AllBeta": {Stage: Beta}}
	}
	for line := range strings.Lines(table) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		name, ours := strings.CutPrefix(words[0], "*")
		name, absent := strings.CutPrefix(name, "-")
		for _, spec := range words[1:] {
			since, g, there := parse(spec)
			g.Honours, g.Absent = ours, absent
			for minor := max(since, Oldest); minor <= Newest; minor++ {
				if delete(all[minor-Oldest], name); there {
					all[minor-Oldest][name] = g
				}
			}
		}
	}
	return all
})

var stages = map[byte]Stage{'a': Alpha, 'b': Beta, 'g': GA, 'd': Deprecated}

// parse reads what a gate is since a version: stage, minor, default, lock. b34+ is beta and on since 1.34, g35+! stable and
// locked, x37 gone.
func parse(spec string) (since int, g Gate, there bool) {
	spec, g.Locked = strings.CutSuffix(spec, "!")
	stage, there := stages[spec[0]]
	g.Stage, g.Default = stage, strings.HasSuffix(spec, "+")
	since, _ = strconv.Atoi(strings.TrimRight(spec[1:], "+-"))
	return since, g, there
}
