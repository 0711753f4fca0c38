package podspec

import "strings"

// placed are the paths of files in the order in which they were added. It finds what gets in the way of another without a look at each of
// them: a pod may have tens of thousands.
type placed struct {
	all   []string
	at    map[string]int // the first of each path
	below map[string]int // the first path that lies in a directory
	long  []int          // paths that are longer than indexed
}

// indexed is the length up to which paths and directories are found by their text. Few longer ones have room in a request.
const indexed = 256

// rival is the first path that is p, lies below it, or has it below.
func (f *placed) rival(p string) (string, bool) {
	best := len(f.all)
	found := func(in map[string]int, text string) {
		if i, ok := in[text]; ok {
			best = min(best, i)
		}
	}
	directories(p, func(dir string) { found(f.at, dir) })
	if len(p) <= indexed {
		found(f.at, p)
		found(f.below, p)
	} else {
		for _, i := range f.long {
			if o := f.all[i]; p == o || isBelow(p, o) || isBelow(o, p) {
				best = min(best, i)
				break
			}
		}
	}
	if best == len(f.all) {
		return "", false
	}
	return f.all[best], true
}

func (f *placed) add(p string) {
	i := len(f.all)
	if f.at == nil {
		f.at, f.below = map[string]int{}, map[string]int{}
	}
	first := func(in map[string]int, text string) {
		if _, ok := in[text]; !ok {
			in[text] = i
		}
	}
	directories(p, func(dir string) { first(f.below, dir) })
	if len(p) <= indexed {
		first(f.at, p)
	} else {
		f.long = append(f.long, i)
	}
	f.all = append(f.all, p)
}

// directories yields those that a path lies in, as far as they are indexed.
func directories(p string, yield func(dir string)) {
	for i := 0; i < len(p) && i <= indexed; i++ {
		if p[i] == '/' {
			yield(p[:i])
		}
	}
}

func isBelow(p, dir string) bool {
	return len(p) > len(dir) && p[len(dir)] == '/' && strings.HasPrefix(p, dir)
}
