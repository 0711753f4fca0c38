package logs

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

func TestSettled(t *testing.T) {
	for _, c := range []struct {
		name       string
		open, want time.Duration // how long the runtime keeps the log open, and how long is waited
	}{
		{"closed", 0, 0},
		{"open for a moment", settlingStep / 2, settlingStep},
		{"open for a while", 3*settlingStep - time.Millisecond, 3 * settlingStep},
		{"open for ever", time.Hour, Settling},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "0.log")
			synctest.Test(t, func(t *testing.T) {
				f, err := os.Create(path)
				if err != nil {
					t.Fatal(err)
				}
				if c.open == 0 {
					f.Close()
				}
				time.AfterFunc(c.open, func() { f.Close() })
				was := time.Now()
				Settled(t.Context(), path)
				if got := time.Since(was); got != c.want {
					t.Errorf("waited %v, want %v", got, c.want)
				}
				if _, err := os.OpenFile(path, os.O_WRONLY, 0); err != nil { // no lease is left
					t.Error(err)
				}
			})
		})
	}
	t.Run("no file", func(t *testing.T) { Settled(t.Context(), filepath.Join(t.TempDir(), "0.log")) })
}
