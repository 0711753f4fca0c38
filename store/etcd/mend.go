package etcd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
)

// mend ends a log after its last whole record, if the process that wrote it was killed while it wrote the next. Etcd would do so itself,
// but takes the room of another file for a copy that it never removes: it would not start on a full disk, and every crash would leave
// one. Here the torn record is overwritten with zeros, and the file keeps its length and its blocks. It is for logs that were examined.
func mend(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil || len(names) == 0 {
		return err
	}
	f, err := fileutil.TryLockFile(names[len(names)-1], os.O_RDWR, fileutil.PrivateFileMode)
	if errors.Is(err, fileutil.ErrLocked) {
		return ErrInUse
	}
	if err != nil {
		return fmt.Errorf("open the end of the log: %w", err)
	}
	defer f.Close()
	switch end, err := wholeRecords(f.File); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		if err := errors.Join(erase(f.File, end), f.Sync()); err != nil {
			return fmt.Errorf("take the torn record off the log: %w", err)
		}
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("read the end of the log: %w", err)
	}
	copies, err := filepath.Glob(filepath.Join(dir, "*.wal.broken")) // of earlier versions, which let etcd do it
	for _, name := range copies {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// wholeRecords reads a file of the log until one can't be read, and says where that begins: at the end, or at a torn record.
func wholeRecords(f *os.File) (end int64, err error) {
	decoder, record := wal.NewDecoder(fileutil.NewFileReader(f)), &walpb.Record{}
	for {
		end = decoder.LastOffset()
		if err := decoder.Decode(record); err != nil {
			return end, err
		}
		if record.GetType() == wal.CrcType {
			if crc := decoder.LastCRC(); crc != 0 && record.GetCrc() != crc {
				return end, wal.ErrCRCMismatch
			}
			decoder.UpdateCRC(record.GetCrc())
		}
	}
}

// erase overwrites all of a file after a place that is not zero already.
func erase(f *os.File, from int64) error {
	piece := make([]byte, 64<<10)
	for at := from; ; {
		n, err := f.ReadAt(piece, at)
		if dirty := piece[:n]; !zero(dirty) {
			clear(dirty)
			if _, err := f.WriteAt(dirty, at); err != nil {
				return err
			}
		}
		if at += int64(n); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func zero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}
