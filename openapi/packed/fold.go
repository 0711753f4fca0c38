package packed

import (
	"encoding/binary"
	"errors"
)

const (
	seed  = 24 // bytes by which a repeat is found
	least = 32 // bytes of a repeat that are worth being named
)

// Fold takes out of a text what stood in it before, however far back: gzip remembers 32 KiB, and the schema of one type stands in a file
// once for each version that has it, with most of its descriptions. The folded text is the number of repeats; how much stands before
// each; how long each is; where each begins, counted from where the one before ended there; all as varints; and what is no repeat.
func Fold(text []byte) []byte {
	var before, long, where, rest []byte
	at := map[string]int{} // where a seed stood last
	count, done, last := 0, 0, 0
	for i := 0; i+seed <= len(text); i++ {
		key := string(text[i : i+seed])
		from, known := at[key]
		at[key] = i
		if !known {
			continue
		}
		n := seed
		for i+n < len(text) && text[from+n] == text[i+n] {
			n++
		}
		start := i
		for start > done && from > 0 && text[from-1] == text[start-1] {
			start, from, n = start-1, from-1, n+1
		}
		if n < least {
			continue
		}
		count++
		before = binary.AppendUvarint(before, uint64(start-done))
		long = binary.AppendUvarint(long, uint64(n))
		where = binary.AppendVarint(where, int64(from-last))
		rest = append(rest, text[done:start]...)
		done, last = start+n, from+n
		for i++; i < done && i+seed <= len(text); i++ {
			at[string(text[i:i+seed])] = i
		}
		i = done - 1
	}
	out := binary.AppendUvarint(nil, uint64(count))
	for _, part := range [][]byte{before, long, where, rest, text[done:]} {
		out = append(out, part...)
	}
	return out
}

var errFolded = errors.New("it is not a folded text")

// Unfold is the text again.
func Unfold(folded []byte) ([]byte, error) {
	count, n := binary.Uvarint(folded)
	if n <= 0 || count > uint64(len(folded)) {
		return nil, errFolded
	}
	var parts [3][]byte // of before, long and where
	parts[0] = folded[n:]
	rest := parts[0]
	for i := range parts {
		parts[i] = rest
		for range count {
			if _, n = binary.Uvarint(rest); n <= 0 {
				return nil, errFolded
			}
			rest = rest[n:]
		}
	}
	out, last := make([]byte, 0, 4*len(folded)), int64(0)
	for range count {
		before, n := binary.Uvarint(parts[0])
		long, m := binary.Uvarint(parts[1])
		where, w := binary.Varint(parts[2])
		parts[0], parts[1], parts[2] = parts[0][n:], parts[1][m:], parts[2][w:]
		if before > uint64(len(rest)) {
			return nil, errFolded
		}
		out, rest = append(out, rest[:before]...), rest[before:]
		from := last + where
		if from < 0 || from >= int64(len(out)) || long > maxText-uint64(len(out)) {
			return nil, errFolded
		}
		last = from + int64(long)
		for ; from < last; from++ { // one by one: a repeat may begin in what it makes
			out = append(out, out[from])
		}
	}
	return append(out, rest...), nil
}

// maxText bounds what a text may become, so that no damaged file takes all memory.
const maxText = 64 << 20
