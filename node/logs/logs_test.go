package logs

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// fake is a runtime with one running container, and one that has ended.
type fake struct {
	cri.RuntimeServiceClient
	path     string
	reopened int
	refuse   error
}

func (f *fake) ListContainers(context.Context, *cri.ListContainersRequest, ...grpc.CallOption) (*cri.ListContainersResponse, error) {
	return &cri.ListContainersResponse{Containers: []*cri.Container{{Id: "id1"}}}, nil
}

func (f *fake) ContainerStatus(context.Context, *cri.ContainerStatusRequest, ...grpc.CallOption) (*cri.ContainerStatusResponse, error) {
	return &cri.ContainerStatusResponse{Status: &cri.ContainerStatus{LogPath: f.path}}, nil
}

func (f *fake) ReopenContainerLog(_ context.Context, r *cri.ReopenContainerLogRequest,
	_ ...grpc.CallOption) (*cri.ReopenContainerLogResponse, error) {
	if f.refuse != nil {
		return nil, f.refuse
	}
	f.reopened++
	return &cri.ReopenContainerLogResponse{}, os.WriteFile(f.path, nil, 0o600)
}

func setup(t *testing.T) (*fake, Config) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "logs[1]") // a name that a pattern would take otherwise
	f := &fake{path: filepath.Join(dir, "ns_web_u1", "c", "0.log")}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		t.Fatal(err)
	}
	return f, Config{Dir: dir, Containers: f, MaxBytes: 10, MaxFiles: 3}
}

func (f *fake) write(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(f.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// contents are the texts of the container's files, in the order of their names.
func (f *fake) contents(t *testing.T) (list []string) {
	t.Helper()
	files, err := filepath.Glob(escape(f.path) + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		var rd io.Reader = file
		mark := ""
		if strings.HasSuffix(name, ".gz") {
			if rd, err = gzip.NewReader(file); err != nil {
				t.Fatal(name, err)
			}
			mark = "gz "
		}
		text, err := io.ReadAll(rd)
		if err != nil {
			t.Fatal(name, err)
		}
		list = append(list, mark+string(text))
	}
	return list
}

func TestRotate(t *testing.T) {
	f, cfg := setup(t)
	for i, want := range []string{
		"[ first of all]", "[ gz first of all second of all]", "[ gz second of all third of all]", "[ gz third of all fourth of all]",
	} {
		f.write(t, []string{"first", "second", "third", "fourth"}[i]+" of all")
		if err := Rotate(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(f.contents(t)); got != want {
			t.Errorf("after %d rotations: %s, want %s", i+1, got, want)
		}
	}
	f.write(t, "small")
	if err := Rotate(t.Context(), cfg); err != nil || f.reopened != 4 {
		t.Errorf("%v, %d rotations", err, f.reopened)
	}
}

func TestEnded(t *testing.T) {
	f, cfg := setup(t)
	ended := filepath.Join(filepath.Dir(f.path), "1.log")
	if err := os.WriteFile(ended, make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Rotate(t.Context(), cfg); err != nil || f.reopened != 0 {
		t.Errorf("%v, %d rotations", err, f.reopened)
	}
	if info, err := os.Stat(ended); err != nil || info.Size() != 100 {
		t.Error("the log of an ended container has changed", err)
	}
}

func TestRefused(t *testing.T) {
	f, cfg := setup(t)
	f.refuse = errors.New("no")
	f.write(t, "large enough")
	if err := Rotate(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "ask the runtime for a new file: no") {
		t.Errorf("%v", err)
	}
	if got := fmt.Sprint(f.contents(t)); got != "[large enough]" {
		t.Errorf("after a refusal: %s", got)
	}
}

// TestCrash: a crash between packing and removing leaves both forms, or half of one.
func TestCrash(t *testing.T) {
	t.Attr("retry", "never") // data that is lost once is lost
	f, cfg := setup(t)
	f.write(t, "large enough")
	for name, text := range map[string]string{".20260101-000000": "old", ".20260101-000000.gz": "half", ".20260101-000000.tmp": "half"} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(f.path+name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
	if err := Rotate(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(f.contents(t)); got != "[ gz old large enough]" {
		t.Errorf("after the crash: %s", got)
	}
}

func TestRun(t *testing.T) {
	f, cfg := setup(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go Run(ctx, cfg)
		f.write(t, "large enough")
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if f.reopened != 1 {
			t.Errorf("%d rotations", f.reopened)
		}
	})
}
