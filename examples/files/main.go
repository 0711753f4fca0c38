// Command files is a control plane for the files of one directory: kubectl says what should be in them, and it stays so.
//
// +groupName=example.com
// +versionName=v1
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"io/fs"
	"log"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/engine"
)

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 crd paths=. output:crd:dir=.

// A File is wanted in the directory.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Path",type=string,JSONPath=`.spec.path`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
type File struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              FileSpec   `json:"spec"`
	Status            FileStatus `json:"status,omitempty"`
}

// FileSpec says what should be.
type FileSpec struct {
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-][A-Za-z0-9._-]*$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a file is not renamed: make another one"
	Path string `json:"path"` // a name in the directory
	// +kubebuilder:validation:MaxLength=100000
	Content string `json:"content"`
}

// FileStatus says what is.
type FileStatus struct {
	Bytes              int                `json:"bytes"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

//go:embed example.com_files.yaml
var definition []byte

// files is the loop over the files of a directory. What is read is nil where there is no file.
func files(dir *os.Root) engine.Loop[*File, *string] {
	return engine.Loop[*File, *string]{
		Name: "files", Kind: engine.Kind[*File]{CRD: definition}, Clean: true, Poll: 5 * time.Second,
		Target: func(f *File) string { return f.Spec.Path },
		Observe: func(_ context.Context, f *File) (*string, error) {
			data, err := dir.ReadFile(f.Spec.Path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil, nil
			}
			text := string(data)
			return &text, err
		},
		Plan: func(f *File, have *string) []engine.Step {
			switch gone := f.DeletionTimestamp != nil; {
			case gone && have != nil:
				return []engine.Step{{Name: "remove " + f.Spec.Path, Do: func(context.Context) error { return dir.Remove(f.Spec.Path) }}}
			case !gone && (have == nil || *have != f.Spec.Content):
				return []engine.Step{{Name: "write " + f.Spec.Path,
					Do: func(context.Context) error { return dir.WriteFile(f.Spec.Path, []byte(f.Spec.Content), 0o644) }}}
			}
			return nil
		},
		Status: func(f *File, have *string) {
			if have != nil {
				f.Status.Bytes = len(*have)
			}
		},
	}
}

func main() {
	dir := flag.String("dir", ".", "directory whose files are kept")
	listen := flag.String("listen", "127.0.0.1:7443", "address of the API")
	flag.Parse()
	root, err := os.OpenRoot(*dir)
	if err != nil {
		log.Fatal(err)
	}
	p, err := engine.Start(context.Background(), engine.Config{Listen: *listen, Kubeconfig: "files.kubeconfig"}, files(root))
	if err != nil {
		log.Fatal(err)
	}
	log.Print("KUBECONFIG=files.kubeconfig kubectl get files -A")
	log.Fatal(p.Wait())
}
