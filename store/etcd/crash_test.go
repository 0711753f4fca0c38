package etcd_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/etcd"
)

// crashDir makes the test binary a writer on that data directory; see TestMain.
const crashDir = "ETCD_TEST_CRASH_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		if err := writeForever(dir); err != nil && !errors.Is(err, store.ErrUnavailable) { // which a slow disk is
			fmt.Println("error", err)
		}
		os.Exit(1)
	}
	flag.Parse()
	flag.Set("test.parallel", "8") // the tests wait for the disk and for time, not for processors
	os.Exit(m.Run())
}

// writeForever updates keys with several writers, and prints every write that was acknowledged: writer,
// number, revision.
func writeForever(dir string) error {
	s, err := etcd.Open(context.Background(), etcd.Config{Dir: dir})
	if err != nil {
		return err
	}
	fmt.Println("open")
	errs := make(chan error)
	for w := range 4 {
		go func() { errs <- writeOne(s, w) }()
	}
	return <-errs
}

func writeOne(s *etcd.Store, w int) error {
	ctx, key := context.Background(), fmt.Sprint("/registry/", w)
	kv, _, err := s.Get(ctx, key)
	if err != nil {
		return err
	}
	n, rev := 0, int64(0)
	if kv != nil {
		number, _, _ := strings.Cut(string(kv.Value), " ")
		n, _ = strconv.Atoi(number)
		rev = kv.ModRev
	}
	for {
		n++
		rev, err = s.Write(ctx, store.Write{Key: key, Value: fmt.Appendf(nil, "%d %s", n, strings.Repeat("x", 1000)), Expect: rev})
		if err != nil {
			return err
		}
		if _, err := fmt.Printf("%d %d %d\n", w, n, rev); err != nil {
			return err
		}
	}
}

// A process that is killed at any moment loses nothing that it had acknowledged. (Cuts of
// the disk's power are in test/torture.)
func TestKill(t *testing.T) { // not beside others: a child that is being started holds the locks of files that they closed
	dir := t.TempDir()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var acked [4]struct{ n, rev int64 }
	for range 10 {
		crash(t, dir, time.Duration(random.IntN(200))*time.Millisecond, func(w, n, rev int64) {
			if acked[w].n = n; rev <= acked[w].rev {
				t.Errorf("writer %d went from revision %d to %d", w, acked[w].rev, rev)
			}
			acked[w].rev = rev
		})
		s := open(t, dir)
		for w := range acked {
			kv, _, err := s.Get(t.Context(), fmt.Sprint("/registry/", w))
			if err != nil {
				t.Fatal(err)
			}
			var n int64
			if kv != nil {
				fmt.Sscan(string(kv.Value), &n)
			}
			// The last write may be done without having been acknowledged.
			if n != acked[w].n && n != acked[w].n+1 {
				t.Errorf("writer %d: write %d was acknowledged, the store has %d", w, acked[w].n, n)
			}
			acked[w].n = n
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("acknowledged: %v", acked)
}

// crash runs a writer and kills it some time after it is open.
func crash(t *testing.T, dir string, after time.Duration, ack func(w, n, rev int64)) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), crashDir+"="+dir)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var w, n, rev int64
		switch _, err := fmt.Sscan(lines.Text(), &w, &n, &rev); {
		case lines.Text() == "open":
			time.AfterFunc(after, func() { cmd.Process.Kill() })
		case err == nil:
			ack(w, n, rev)
		case strings.HasPrefix(lines.Text(), "error"):
			t.Error(lines.Text())
		}
	}
	cmd.Wait()
}
