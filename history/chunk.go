package history

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"time"
)

// A header says what a chunk holds: the changes behind revision From up to To, seen between two times in milliseconds.
type header struct {
	From, To, Begin, End int64
	Size                 uint32 // of what follows, in bytes
	Sum                  uint32 // of all of it, this number aside
}

const (
	headerSize = 4 + 4*8 + 2*4
	magic      = "kh1\n"
	maxChunk   = 64 << 20 // of what a chunk unpacks to; more is damage
)

func (h *header) marshal() []byte {
	b := append(make([]byte, 0, headerSize), magic...)
	for _, n := range []int64{h.From, h.To, h.Begin, h.End} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = binary.BigEndian.AppendUint32(b, h.Size)
	return binary.BigEndian.AppendUint32(b, h.Sum)
}

func (h *header) unmarshal(b []byte) bool {
	if len(b) < headerSize || string(b[:4]) != magic {
		return false
	}
	for i, n := range []*int64{&h.From, &h.To, &h.Begin, &h.End} {
		*n = int64(binary.BigEndian.Uint64(b[4+8*i:]))
	}
	h.Size = binary.BigEndian.Uint32(b[36:])
	h.Sum = binary.BigEndian.Uint32(b[40:])
	return h.Size <= maxChunk
}

// sum guards a header and what follows it.
func (h *header) sum(packed []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE(h.marshal()[:headerSize-4]), crc32.IEEETable, packed)
}

// packers are used again while there is much to pack: each is a megabyte.
var packers = sync.Pool{New: func() any {
	w, err := flate.NewWriter(io.Discard, flate.BestSpeed)
	if err != nil { // the level is one of the library's
		panic(err)
	}
	return w
}}

// pack makes a chunk of records.
func pack(h header, records []byte) ([]byte, error) {
	var b bytes.Buffer
	w := packers.Get().(*flate.Writer)
	defer packers.Put(w)
	w.Reset(&b)
	if _, err := w.Write(records); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	h.Size = uint32(b.Len())
	h.Sum = h.sum(b.Bytes())
	return append(h.marshal(), b.Bytes()...), nil
}

var errDamaged = errors.New("a chunk of the history is damaged")

// unpack returns the records of a chunk.
func (h *header) unpack(packed []byte) ([]byte, error) {
	if h.sum(packed) != h.Sum {
		return nil, errDamaged
	}
	out, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxChunk+1))
	if err != nil || len(out) > maxChunk {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return out, nil
}

// A Record is one write, and what its object was before.
type Record struct {
	Key string // in the store
	Rev int64  // of the write
	Was int64  // revision of what was before; 0: there was nothing
	At  time.Time

	gone, sealed, lost bool
	body               []byte
}

// Created says that the write made the object.
func (r *Record) Created() bool { return r.Was == 0 }

// Deleted says that the write removed the object.
func (r *Record) Deleted() bool { return r.gone }

// Sealed says that what the object was is kept encrypted, and whole. Of Secrets that are not, values are left out.
func (r *Record) Sealed() bool { return r.sealed }

const (
	flagGone = 1 << iota
	flagSealed
	flagLost
)

func (r *Record) append(b []byte) []byte {
	flags := byte(0)
	for i, on := range []bool{r.gone, r.sealed, r.lost} {
		if on {
			flags |= 1 << i
		}
	}
	b = append(b, flags)
	b = binary.AppendVarint(b, r.Rev)
	b = binary.AppendVarint(b, r.Was)
	b = binary.AppendVarint(b, r.At.UnixMilli())
	b = append(binary.AppendUvarint(b, uint64(len(r.Key))), r.Key...)
	return append(binary.AppendUvarint(b, uint64(len(r.body))), r.body...)
}

// next takes a record off the front. Its body lies in b.
func (r *Record) next(b []byte) (rest []byte, err error) {
	if len(b) == 0 {
		return nil, errDamaged
	}
	flags := b[0]
	r.gone, r.sealed, r.lost = flags&flagGone != 0, flags&flagSealed != 0, flags&flagLost != 0
	b = b[1:]
	at := int64(0)
	for _, n := range []*int64{&r.Rev, &r.Was, &at} {
		v, size := binary.Varint(b)
		if size <= 0 {
			return nil, errDamaged
		}
		*n, b = v, b[size:]
	}
	r.At = time.UnixMilli(at)
	var parts [2][]byte
	for i := range parts {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return nil, errDamaged
		}
		parts[i], b = b[size:size+int(n)], b[size+int(n):]
	}
	r.Key, r.body = string(parts[0]), parts[1]
	return b, nil
}

// Size estimates the bytes of memory that the record keeps.
func (r *Record) Size() int { return len(r.body) + len(r.Key) + 96 }

// Keep returns the record in memory of its own.
func (r *Record) Keep() Record {
	out := *r
	out.body = bytes.Clone(r.body)
	return out
}
