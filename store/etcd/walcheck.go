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
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// A logEnd is the end of a log.
type logEnd struct {
	first     uint64 // entry that the first file begins with
	snapshot  uint64 // entry of the last snapshot that counts: one that is known to be acknowledged
	last      uint64 // last entry
	committed uint64 // last entry that is known to be acknowledged

	snapshots []uint64 // all that it tells of
}

// log reads the log and compares it with the database: what the database has applied must be in the log, or
// new entries would take the numbers of old ones and be passed over. It reads every record once, checksums
// included; etcd does so twice more, and for a small cluster all that is most of the time of a start.
func (x *examined) log(dir string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	end, err := readLog(dir)
	if err != nil {
		return err
	}
	if known := max(x.applied, end.committed); known > end.last {
		return fmt.Errorf("it ends at entry %d, but entry %d was acknowledged", end.last, known)
	}
	if x.applied < end.snapshot {
		return fmt.Errorf("it needs a database that goes to entry %d at least, this one goes to %d", end.snapshot, x.applied)
	}
	if end.first > end.snapshot+1 {
		return fmt.Errorf("it begins at entry %d, the entries after %d are missing", end.first, end.snapshot)
	}
	x.snapshot, x.entries = end.snapshot, int(end.last-end.snapshot)
	return nil
}

// readLog reads the files of a log in their order. The last record may be incomplete: it was being written
// when the process ended, and nothing in it was acknowledged.
func readLog(dir string) (end logEnd, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil {
		return end, err
	}
	readers := make([]fileutil.FileReader, 0, len(names))
	for i, name := range names {
		var seq, first, before uint64
		if _, err := fmt.Sscanf(filepath.Base(name), "%016x-%016x.wal", &seq, &first); err != nil {
			return end, fmt.Errorf("%s has a strange name: %w", name, err)
		}
		if i == 0 {
			end.first = first
		} else {
			fmt.Sscanf(filepath.Base(names[i-1]), "%016x-", &before)
			if before+1 != seq {
				return end, fmt.Errorf("files are missing between %s and %s", names[i-1], name)
			}
		}
		f, err := os.Open(name)
		if err != nil {
			return end, err
		}
		defer f.Close()
		readers = append(readers, fileutil.NewFileReader(f))
	}
	decoder, record := wal.NewDecoder(readers...), &walpb.Record{}
	for err = decoder.Decode(record); err == nil; err = decoder.Decode(record) {
		if err := end.add(decoder, record); err != nil {
			return end, err
		}
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return end, err
	}
	for _, snapshot := range end.snapshots {
		if snapshot <= end.committed {
			end.snapshot = snapshot
		}
	}
	return end, nil
}

// add takes one record in.
func (end *logEnd) add(decoder wal.Decoder, record *walpb.Record) error {
	switch record.GetType() {
	case wal.EntryType:
		end.last = entryIndex(record.Data)
	case wal.StateType:
		var state raftpb.HardState
		if err := proto.Unmarshal(record.Data, &state); err != nil {
			return err
		}
		end.committed = state.GetCommit()
	case wal.SnapshotType:
		var snapshot walpb.Snapshot
		if err := proto.Unmarshal(record.Data, &snapshot); err != nil {
			return err
		}
		end.snapshots = append(end.snapshots, snapshot.GetIndex())
		end.last = max(end.last, snapshot.GetIndex())
	case wal.CrcType:
		if crc := decoder.LastCRC(); crc != 0 && record.GetCrc() != crc {
			return wal.ErrCRCMismatch
		}
		decoder.UpdateCRC(record.GetCrc())
	}
	return nil
}

// entryIndex reads the number of a raft entry without taking in its data.
func entryIndex(entry []byte) uint64 {
	const field = 3
	for len(entry) > 0 {
		number, kind, n := protowire.ConsumeTag(entry)
		if n < 0 {
			return 0
		}
		if entry = entry[n:]; number == field {
			index, _ := protowire.ConsumeVarint(entry)
			return index
		}
		if n = protowire.ConsumeFieldValue(number, kind, entry); n < 0 {
			return 0
		}
		entry = entry[n:]
	}
	return 0
}
