package history

import "os"

// Unpacked has the records of a file.
func Unpacked(name string) (out []byte, err error) {
	data, err := os.ReadFile(name)
	for err == nil && len(data) > 0 {
		var h header
		if !h.unmarshal(data) {
			return out, errDamaged
		}
		end := headerSize + int(h.Size)
		var records []byte
		records, err = h.unpack(data[headerSize:end])
		out, data = append(out, records...), data[end:]
	}
	return out, err
}

// Flush ends the chunk.
func (l *Log) Flush() { l.flush() }
