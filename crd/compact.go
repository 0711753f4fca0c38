package crd

import (
	"unsafe"

	"github.com/kloop-dev/kloop/resource"
)

// What is packed together, and when it is worth it.
const (
	blockSize = 128 << 10 // bytes of packed texts in a block, about; Go keeps what is so large in pages of its own
	worth     = 16 << 10  // bytes of texts; fewer stay as they are
)

// Compact implements view.Compacter: texts that lie alone, and those in blocks most of whose texts are gone, are packed
// into new blocks. So they take less memory, and no garbage is left between them. What objects say stays the same, and
// they may be read meanwhile.
func (k *Kind) Compact(objs []resource.Object) {
	list := scattered(objs)
	p := packer{}
	for _, s := range list {
		p.add(s)
	}
	p.flush()
}

// scattered returns the objects whose texts should move; none if they are few.
func scattered(objs []resource.Object) (list []*Stored) {
	used := map[*textBlock]int{}
	each := func(f func(s *Stored, at *packedText)) {
		for _, obj := range objs {
			if s, ok := obj.(*Stored); ok && s.at.Load().size <= maxModel {
				f(s, s.at.Load())
			}
		}
	}
	each(func(_ *Stored, at *packedText) {
		if at != &at.in.one {
			used[at.in] += int(at.to - at.from)
		}
	})
	size := 0
	each(func(s *Stored, at *packedText) {
		if at == &at.in.one || used[at.in] < len(at.in.data)/2 {
			list = append(list, s)
			size += int(at.size)
		}
	})
	if size < worth {
		return nil
	}
	return list
}

// A packer fills blocks.
type packer struct {
	shared deltaEncoder
	buf    []byte
	model  string
	places []packedText
	moving []*Stored // whose places these are
}

// add puts the text of an object at the end of the block.
func (p *packer) add(s *Stored) {
	if len(p.buf) >= blockSize {
		p.flush()
	}
	old := s.at.Load()
	text, from := old.bytes(nil), len(p.buf)
	plain := unsafe.String(unsafe.SliceData(text), len(text))
	if from == 0 {
		p.model = plain
		p.shared.learn(plain)
		p.buf = append(p.buf, text...)
	} else if p.buf = p.shared.pack(p.buf, plain); len(p.buf)-from >= len(text) {
		p.buf = append(p.buf[:from], text...)
	}
	p.places = append(p.places, packedText{from: uint32(from), to: uint32(len(p.buf)), size: old.size, meta: old.meta})
	p.moving = append(p.moving, s)
}

// flush makes a block of what was added, and moves the objects there.
func (p *packer) flush() {
	if len(p.moving) == 0 {
		return
	}
	b := &textBlock{data: string(p.buf), model: uint32(len(p.model))}
	places := append(make([]packedText, 0, len(p.places)), p.places...)
	for i, s := range p.moving {
		places[i].in = b
		s.at.Store(&places[i])
	}
	clear(p.moving)
	p.buf, p.places, p.moving = p.buf[:0], p.places[:0], p.moving[:0]
}
