package packed

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"testing"
)

// TestPacked: files of definitions are as they are packed into the program; KLOOP_WRITE=1 packs them.
func TestPacked(t *testing.T) {
	for _, file := range []string{"../../loadbalancer/metallb.yaml", "../../localstorage/snapshots.yaml"} {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if os.Getenv("KLOOP_WRITE") != "" {
			var out bytes.Buffer
			z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
			_, werr := z.Write(want)
			if err := errors.Join(werr, z.Close(), os.WriteFile(file+".gz", out.Bytes(), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		packed, err := os.ReadFile(file + ".gz")
		if err != nil {
			t.Fatal(err)
		}
		if have, err := unpack(packed); err != nil || !bytes.Equal(have, want) {
			t.Errorf("%s is not what is packed, %v: KLOOP_WRITE=1 go test ./controllers/internal/packed -run TestPacked", file, err)
		}
		if list, err := Definitions(packed); err != nil || len(list) == 0 {
			t.Errorf("%s: %d definitions, %v", file, len(list), err)
		}
	}
	for _, bad := range []string{"", "no gzip"} {
		if _, err := Definitions([]byte(bad)); err == nil {
			t.Errorf("%q is taken for definitions", bad)
		}
	}
}
