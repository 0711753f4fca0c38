package plugins

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// errGone ends what is done for a socket that is not there any more.
var errGone = errors.New("the plugin's socket has gone")

// How long a plugin may take to answer, and the pauses between two tries to register it.
const (
	askWithin  = 5 * time.Second
	firstPause = 500 * time.Millisecond
	longPause  = 2 * time.Minute
)

// A plugin is a registration socket that is seen to.
type plugin struct {
	Config
	path string
}

// serve registers the plugin, and deregisters it when its socket has gone.
func (p *plugin) serve(ctx context.Context) {
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		is, h, err := p.register(ctx)
		switch {
		case err == nil:
			p.Log.Info("plugin registered", "type", is.Type, "name", is.Name, "socket", is.Endpoint)
			<-ctx.Done()
			if errors.Is(context.Cause(ctx), errGone) {
				h.Deregister(is)
				p.Log.Info("plugin deregistered", "type", is.Type, "name", is.Name)
			}
			return
		case ctx.Err() == nil:
			p.Log.Warn("register a plugin", "socket", p.path, "again", pause, "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// register asks the plugin what it is, has it taken up, and tells it what became of that. A plugin that was taken up and could not be
// told stays: it works, and a registrar that died offers a new socket.
func (p *plugin) register(ctx context.Context) (is Plugin, h Handler, err error) {
	conn, err := Dial(p.path)
	if err != nil {
		return is, nil, err
	}
	defer conn.Close()
	at := registration.NewRegistrationClient(conn)
	if is, err = ask(ctx, at, p.path); err != nil {
		return is, nil, err
	}
	if h = p.Handlers[is.Type]; h == nil {
		err = fmt.Errorf("this agent knows no plugins of type %q", is.Type)
	} else {
		err = h.Register(ctx, is)
	}
	status := &registration.RegistrationStatus{PluginRegistered: err == nil}
	if err != nil {
		err = fmt.Errorf("register the plugin %s: %w", is.Name, err)
		status.Error = err.Error()
	}
	told, stop := context.WithTimeout(ctx, askWithin)
	defer stop()
	if _, terr := at.NotifyRegistrationStatus(told, status); terr != nil {
		p.Log.Warn("tell a plugin whether it is registered", "name", is.Name, "registered", status.PluginRegistered, "err", terr)
	}
	return is, h, err
}

// ask asks a plugin what it is.
func ask(ctx context.Context, at registration.RegistrationClient, path string) (Plugin, error) {
	ctx, stop := context.WithTimeout(ctx, askWithin)
	defer stop()
	info, err := at.GetInfo(ctx, &registration.InfoRequest{})
	if err != nil {
		return Plugin{}, fmt.Errorf("ask the plugin at %s what it is: %w", path, err)
	}
	p := Plugin{Type: info.Type, Name: info.Name, Endpoint: info.Endpoint, Versions: info.SupportedVersions}
	if p.Endpoint == "" {
		p.Endpoint = path
	}
	if p.Name == "" {
		return p, fmt.Errorf("the plugin at %s has no name", path)
	}
	return p, nil
}

// stampOf is the stamp of a socket.
func stampOf(info fs.FileInfo) stamp {
	s := stamp{made: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode = st.Ino
	}
	return s
}
