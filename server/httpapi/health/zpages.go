package health

import (
	"fmt"
	"maps"
	"mime"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/server/httpapi/reply"
)

// program is the name under which this server tells of itself.
const program = "apiserver"

// zGroup is the group of the pages' structured form, which is no group of the API.
const zGroup = "config.k8s.io"

// A statusz is the structured form of /statusz: v1alpha1 and v1beta1 are the same.
type statusz struct {
	metav1.TypeMeta  `json:",inline"`
	Metadata         zMeta       `json:"metadata"`
	StartTime        metav1.Time `json:"startTime"`
	UptimeSeconds    int64       `json:"uptimeSeconds"`
	GoVersion        string      `json:"goVersion"`
	BinaryVersion    string      `json:"binaryVersion"`
	EmulationVersion string      `json:"emulationVersion,omitempty"`
	Paths            []string    `json:"paths"`
}

type zMeta struct {
	Name string `json:"name"`
}

// A flagz is the structured form of /flagz.
type flagz struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        zMeta             `json:"metadata"`
	Flags           map[string]string `json:"flags,omitempty"`
}

const zWarning = "Warning: This endpoint is not meant to be machine parseable, " +
	"has no formatting compatibility guarantees and is for debugging purposes only.\n\n"

// Pages answer /statusz and /flagz, as far as feature gates switch them on. They are safe for concurrent use.
type Pages struct {
	Version  string // of the binary: v1.37.2
	Features *features.Set
	Flags    map[string]string // with what the program was started: no secrets
	Began    time.Time
	Send     reply.Sender
}

// Paths are the pages that there are.
func (s *Pages) Paths() (paths []string) {
	if s.Features.On("ComponentFlagz") {
		paths = append(paths, "/flagz")
	}
	if s.Features.On("ComponentStatusz") {
		paths = append(paths, "/statusz")
	}
	return paths
}

// Serve answers one of Paths.
func (s *Pages) Serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/statusz" {
		s.status(w, r)
	} else {
		s.flags(w, r)
	}
}

// status answers /statusz: what this program is and since when it runs.
func (s *Pages) status(w http.ResponseWriter, r *http.Request) {
	up := time.Since(s.Began)
	doc := statusz{Metadata: zMeta{program}, StartTime: metav1.NewTime(s.Began.UTC().Truncate(time.Second)),
		UptimeSeconds: int64(up.Seconds()), GoVersion: runtime.Version(),
		BinaryVersion: strings.TrimPrefix(s.Version, "v"), EmulationVersion: s.Features.String(),
		Paths: []string{"/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version"}}
	s.answer(w, r, "Statusz", func(t metav1.TypeMeta) any { doc.TypeMeta = t; return doc }, func() string {
		seconds := doc.UptimeSeconds
		return fmt.Sprintf("Started: %s\nUp: %d hr %02d min %02d sec\nGo version: %s\nBinary version: %s\nEmulation version: %s\nPaths: %s\n",
			s.Began.UTC().Format(time.UnixDate), seconds/3600, seconds/60%60, seconds%60, doc.GoVersion, doc.BinaryVersion,
			doc.EmulationVersion, strings.Join(doc.Paths, " "))
	})
}

// flags answers /flagz: with what this program was started.
func (s *Pages) flags(w http.ResponseWriter, r *http.Request) {
	s.answer(w, r, "Flagz", func(t metav1.TypeMeta) any { return flagz{t, zMeta{program}, s.Flags} }, func() string {
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(s.Flags)) {
			fmt.Fprintf(&b, "%s=%s\n", name, s.Flags[name])
		}
		return b.String()
	})
}

// answer sends the text, or the object where the client asks for one of its versions.
func (s *Pages) answer(w http.ResponseWriter, r *http.Request, kind string, object func(metav1.TypeMeta) any, text func() string) {
	media, version, ok := zAccept(r.Header.Get("Accept"), kind)
	if !ok {
		s.Send.Fail(w, r, reply.Error(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
			"only the following media types are accepted: %s, text/plain", reply.Served(false)))
		return
	}
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	if version == "" {
		h.Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = fmt.Fprintf(w, "\n%s %s\n%s%s", program, strings.ToLower(kind), zWarning, text())
		return
	}
	doc, err := codec.MarshalJSON(object(metav1.TypeMeta{Kind: kind, APIVersion: zGroup + "/" + version}))
	if err == nil && media == codec.YAML {
		doc, err = reply.ToYAML(doc)
	}
	if err != nil {
		s.Send.Fail(w, r, err)
		return
	}
	h.Set("Content-Type", media)
	_, _ = w.Write(doc)
}

// zAccept finds the first form in an Accept header that there is; version is "" for text.
func zAccept(header, kind string) (media, version string, ok bool) {
	if header == "" {
		return "", "", true
	}
	for part := range strings.SplitSeq(header, ",") {
		media, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		switch media {
		case "*/*", "text/*", "text/plain":
			return "", "", true
		case codec.JSON, codec.YAML:
			if v := params["v"]; params["g"] == zGroup && params["as"] == kind && (v == "v1alpha1" || v == "v1beta1") {
				return media, v, true
			}
		}
	}
	return "", "", false
}
