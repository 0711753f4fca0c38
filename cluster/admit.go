package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/past"
	"github.com/kloop-dev/kloop/store/member"
	"github.com/kloop-dev/kloop/trail"
	"github.com/kloop-dev/kloop/web"
)

// pages are the paths of this server beside the API. Those who hold a join token may post to keys and join; all
// others need the right to the path, as administrators have.
func (c *Cluster) pages(d *frontDoor) map[string]http.Handler {
	pages := map[string]http.Handler{}
	if d.past != nil {
		pages[trail.Page] = http.HandlerFunc(d.past.traced)
		pages[past.Page] = d.past.desk
		pages[past.Gaps] = http.HandlerFunc(d.past.gaps)
	}
	pages[CertsPath], pages[CertsPath+"/"] = http.HandlerFunc(d.certs.certificates), http.HandlerFunc(d.certs.certificates)
	if c.storage.etcd == nil {
		return pages
	}
	maps.Copy(pages, map[string]http.Handler{
		keysPath:          http.HandlerFunc(c.storage.giveKeys),
		joinPath:          http.HandlerFunc(c.storage.admit),
		MembersPath:       http.HandlerFunc(c.storage.members),
		MembersPath + "/": http.HandlerFunc(c.storage.members),
		SnapshotPath:      http.HandlerFunc(c.storage.giveSnapshot),
	})
	return pages
}

// pageOf serves the live page at /ui; nil: it is not wanted.
func pageOf(c *Cluster) func(w http.ResponseWriter, r *http.Request) bool {
	if c.cfg.NoPage {
		return nil
	}
	return func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Path+"/" == web.Root, strings.HasPrefix(r.URL.Path, web.Root):
			web.ServePage(w, r)
		case c.elsewhere != nil && passes(r):
			c.elsewhere.ServeHTTP(w, r)
		default:
			return false
		}
		return true
	}
}

// giveKeys hands the cluster's keys to a newcomer. Others don't get them, whatever they may do.
func (s *storage) giveKeys(w http.ResponseWriter, r *http.Request) {
	if !s.fromNewcomer(w, r) {
		return
	}
	files, err := readKeys(filepath.Join(s.cfg.DataDir, "pki"))
	if err != nil {
		refuse(w, apierrors.NewInternalError(err))
		return
	}
	slog.Info("gave the cluster's keys to a server that joins", "from", r.RemoteAddr)
	reply(w, files)
}

// fromNewcomer says that the request came as one from a server that joins: under the name that only those ask for,
// and to a server that takes others.
func (s *storage) fromNewcomer(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case s.cfg.Together.PeerListen == "":
		refuse(w, apierrors.NewConflict(noResource, "join", errors.New("this server takes no others: restart it with --peer-listen HOST:PORT")))
	case r.Method != http.MethodPost || r.TLS == nil || r.TLS.ServerName != joinHost:
		refuse(w, apierrors.NewBadRequest("only servers that join ask for this"))
	default:
		return true
	}
	return false
}

// admit makes a newcomer's member known to the cluster.
func (s *storage) admit(w http.ResponseWriter, r *http.Request) {
	if !s.fromNewcomer(w, r) {
		return
	}
	var who joinRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4096)).Decode(&who); err != nil || who.Name == "" || who.URL == "" {
		refuse(w, apierrors.NewBadRequest("name and url of the member are needed"))
		return
	}
	list, err := s.etcd.Admit(r.Context(), who.Name, who.URL)
	if err != nil {
		refuse(w, memberError(err))
		return
	}
	slog.Info("admitted a member to the store", "name", who.Name, "url", who.URL)
	reply(w, list)
}

// members lists the members of the store, or removes the one that the path names.
func (s *storage) members(w http.ResponseWriter, r *http.Request) {
	who := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, MembersPath), "/")
	switch {
	case r.Method == http.MethodGet && who == "":
		list, err := s.etcd.Members(r.Context())
		if err != nil {
			refuse(w, memberError(err))
			return
		}
		reply(w, list)
	case r.Method == http.MethodDelete && who != "":
		gone, err := s.etcd.Remove(r.Context(), who)
		if err != nil {
			refuse(w, memberError(err))
			return
		}
		slog.Info("removed a member of the store", "name", gone.Name, "url", gone.URL)
		reply(w, gone)
	default:
		refuse(w, apierrors.NewMethodNotSupported(noResource, strings.ToLower(r.Method)))
	}
}

// memberError is the answer to a change of members that failed.
func memberError(err error) *apierrors.StatusError {
	switch {
	case errors.Is(err, member.ErrAlone):
		return apierrors.NewConflict(noResource, "members", err)
	case errors.Is(err, member.ErrNoMember):
		return apierrors.NewNotFound(noResource, strings.TrimPrefix(err.Error(), member.ErrNoMember.Error()+": "))
	case errors.Is(err, member.ErrTaken):
		return apierrors.NewConflict(noResource, "members", err)
	case errors.Is(err, context.DeadlineExceeded):
		return apierrors.NewTimeoutError(err.Error(), 1)
	}
	return apierrors.NewServiceUnavailable(err.Error())
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		slog.Debug("answer", "err", err)
	}
}

func refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	st := err.Status()
	st.Kind, st.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(st.Code))
	if err := json.NewEncoder(w).Encode(st); err != nil {
		slog.Debug("answer", "err", err)
	}
}
