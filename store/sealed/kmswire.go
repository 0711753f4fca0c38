package sealed

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// The messages of the plugin's protocol and the form of stored values, in protobuf: few and fixed, so they are written by
// hand.

// What the source of a value's key is.
const (
	kindKey  = 0 // the key itself
	kindSeed = 1 // what it is derived from
)

// Bounds that plugins must keep.
const (
	maxKeyID       = 1 << 10
	maxSource      = 1 << 10
	maxAnnotations = 32 << 10
)

// A sealedObject is a stored value.
type sealedObject struct {
	data        []byte            // 1
	keyID       string            // 2
	source      []byte            // 3: the seed as the plugin encrypted it
	annotations map[string][]byte // 4: what the plugin wants to be told again
	kind        uint64            // 5
}

func (o sealedObject) check() error {
	size := 0
	for k, v := range o.annotations {
		size += len(k) + len(v)
	}
	switch {
	case len(o.source) == 0 || len(o.source) > maxSource:
		return fmt.Errorf("an encrypted seed of %d bytes: expected 1 to %d", len(o.source), maxSource)
	case size > maxAnnotations:
		return fmt.Errorf("annotations of %d bytes: expected %d at most", size, maxAnnotations)
	case o.kind > kindSeed:
		return fmt.Errorf("a source of an unknown kind, %d", o.kind)
	}
	return checkKeyID(o.keyID)
}

func checkKeyID(id string) error {
	switch {
	case id == "":
		return errors.New("the key's id is empty")
	case len(id) > maxKeyID:
		return fmt.Errorf("the key's id has %d bytes, expected %d at most", len(id), maxKeyID)
	}
	return nil
}

// sum tells sources apart.
func (o sealedObject) sum() [sha256.Size]byte {
	o.data = nil
	return sha256.Sum256(o.marshal())
}

func (o sealedObject) marshal() []byte {
	var b []byte
	b = appendBytes(b, 1, o.data)
	b = appendBytes(b, 2, []byte(o.keyID))
	b = appendBytes(b, 3, o.source)
	b = appendMap(b, 4, o.annotations)
	if o.kind != 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, 5, protowire.VarintType), o.kind)
	}
	return b
}

func appendBytes(b []byte, n protowire.Number, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
}

func appendMap(b []byte, n protowire.Number, m map[string][]byte) []byte {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		b = protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), appendBytes(appendBytes(nil, 1, []byte(k)), 2, m[k]))
	}
	return b
}

func parseObject(b []byte) (o sealedObject, err error) {
	err = fields(b, func(n protowire.Number, v []byte, x uint64) (err error) {
		switch n {
		case 1:
			o.data = v
		case 2:
			o.keyID = string(v)
		case 3:
			o.source = v
		case 4:
			o.annotations, err = addEntry(o.annotations, v)
		case 5:
			o.kind = x
		}
		return err
	})
	if err == nil {
		err = o.check()
	}
	if err == nil && len(o.data) == 0 {
		err = errShort
	}
	if err != nil {
		return o, fmt.Errorf("read the sealed value: %w", err)
	}
	return o, nil
}

func addEntry(m map[string][]byte, entry []byte) (map[string][]byte, error) {
	var key string
	var value []byte
	err := fields(entry, func(n protowire.Number, v []byte, _ uint64) error {
		switch n {
		case 1:
			key = string(v)
		case 2:
			value = v
		}
		return nil
	})
	if m == nil {
		m = map[string][]byte{}
	}
	m[key] = value
	return m, err
}

// fields goes through the fields of a message: bytes in v, numbers in x.
func fields(b []byte, f func(n protowire.Number, v []byte, x uint64) error) error {
	for len(b) > 0 {
		n, typ, size := protowire.ConsumeTag(b)
		if size < 0 {
			return protowire.ParseError(size)
		}
		b = b[size:]
		var v []byte
		var x uint64
		switch typ {
		case protowire.BytesType:
			v, size = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			x, size = protowire.ConsumeVarint(b)
		default:
			size = protowire.ConsumeFieldValue(n, typ, b)
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		b = b[size:]
		if err := f(n, v, x); err != nil {
			return err
		}
	}
	return nil
}

type status struct{ version, healthz, keyID string }

func parseStatus(b []byte) (s status, err error) {
	err = fields(b, func(n protowire.Number, v []byte, _ uint64) error {
		switch n {
		case 1:
			s.version = string(v)
		case 2:
			s.healthz = string(v)
		case 3:
			s.keyID = string(v)
		}
		return nil
	})
	return s, err
}

func encryptRequest(plain []byte, uid string) []byte {
	return appendBytes(appendBytes(nil, 1, plain), 2, []byte(uid))
}

func parseEncrypted(b []byte) (o sealedObject, err error) {
	err = fields(b, func(n protowire.Number, v []byte, _ uint64) (err error) {
		switch n {
		case 1:
			o.source = v
		case 2:
			o.keyID = string(v)
		case 3:
			o.annotations, err = addEntry(o.annotations, v)
		}
		return err
	})
	return o, err
}

func decryptRequest(o sealedObject, uid string) []byte {
	b := appendBytes(appendBytes(nil, 1, o.source), 2, []byte(uid))
	return appendMap(appendBytes(b, 3, []byte(o.keyID)), 4, o.annotations)
}

func parsePlain(b []byte) (plain []byte, err error) {
	err = fields(b, func(n protowire.Number, v []byte, _ uint64) error {
		if n == 1 {
			plain = v
		}
		return nil
	})
	return plain, err
}
