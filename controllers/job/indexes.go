package job

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// indexes is a sorted set of completion indexes as ranges: "1,3-5,7".
type indexes []span

// A span is a range of indexes, both ends included.
type span struct{ first, last int }

// parseIndexes reads the text form; what is not valid, or not below limit, is left out.
func parseIndexes(text string, limit int) (list indexes) {
	for _, part := range strings.Split(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil || first >= limit {
			continue
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(to); err != nil {
				continue
			}
		}
		list = append(list, span{first, min(last, limit-1)})
	}
	return list
}

func (l indexes) String() string {
	var parts []string
	for _, s := range l {
		switch s.last - s.first {
		case 0:
			parts = append(parts, strconv.Itoa(s.first))
		case 1:
			parts = append(parts, fmt.Sprintf("%d,%d", s.first, s.last))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", s.first, s.last))
		}
	}
	return strings.Join(parts, ",")
}

func (l indexes) total() (n int) {
	for _, s := range l {
		n += s.last - s.first + 1
	}
	return n
}

func (l indexes) has(i int) bool {
	at, _ := slices.BinarySearchFunc(l, i, func(s span, i int) int { return s.last - i })
	return at < len(l) && l[at].first <= i
}

// add returns the set with one more index.
func (l indexes) add(i int) indexes {
	if l.has(i) {
		return l
	}
	all := append(slices.Clone(l), span{i, i})
	coldsort.Func(all, func(a, b span) int { return a.first - b.first })
	out := all[:1]
	for _, s := range all[1:] {
		if end := &out[len(out)-1]; end.last+1 == s.first {
			end.last = s.last
		} else {
			out = append(out, s)
		}
	}
	return out
}

// common counts the indexes that both sets have.
func (l indexes) common(m indexes) (n int) {
	for _, a := range l {
		for _, b := range m {
			n += max(0, min(a.last, b.last)-max(a.first, b.first)+1)
		}
	}
	return n
}
