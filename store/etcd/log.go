package etcd

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// zapLogger makes etcd's log of warnings and errors part of ours. What etcd would end the process for
// panics instead, with all that it has to say.
func zapLogger(log *slog.Logger) *zap.Logger {
	return zap.New(&zapCore{log: log.With("part", "etcd")})
}

// zapCore writes zap's entries to slog.
type zapCore struct {
	log    *slog.Logger
	fields []zapcore.Field
}

func (c *zapCore) Enabled(l zapcore.Level) bool {
	return l >= zapcore.WarnLevel && (l > zapcore.ErrorLevel || c.log.Enabled(context.Background(), level(l)))
}

func (c *zapCore) With(fields []zapcore.Field) zapcore.Core {
	return &zapCore{c.log, append(c.fields[:len(c.fields):len(c.fields)], fields...)}
}

// harmless are parts of messages that etcd thinks worth a warning, but that every start or stop brings.
var harmless = []string{
	"cannot campaign",                  // asked to before it could; it is asked again
	"Failed to detect storage schema",  // of a database that is new, and
	"Failed to detect schema version",  // of a database that is new, and
	"failed to update storage version", // tried again later
	"failed to publish local member",   // before the log was replayed; tried again
	"TCP streaming connection",         // when a member stops; that it became inactive is logged too
	"failed to find remote peer",       // that starts
	"unpromotable and can not",         // a member that gets ready to vote
	"learner is not ready",             // it tries again
	"rejecting member",                 // the caller gets the reason
	"waiting for ReadIndex response",   // the caller gets an error when it took too long
	"prober detected unhealthy",        // told once when a peer becomes inactive, as are the next two
	"failed to reach the peer URL",
	"failed to get version",
	"failed to parse cluster version", // of a cluster to join; tried again
	"ignored out-of-date read index",
	"apply request took too long",   // of reads that waited for the leader: the caller gets an error
	"dropped internal Raft message", // hundreds a second while a member can't be reached
}

func (c *zapCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	for _, part := range harmless {
		if strings.Contains(e.Message, part) {
			return ce
		}
	}
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c *zapCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	text := zapcore.NewMapObjectEncoder()
	for _, f := range append(c.fields[:len(c.fields):len(c.fields)], fields...) {
		f.AddTo(text)
	}
	if e.Level > zapcore.ErrorLevel {
		panic(failure(e.Message, text.Fields["error"]))
	}
	args := make([]any, 0, 2*len(text.Fields))
	for key, value := range text.Fields {
		if key == "error" {
			key = "err"
		}
		args = append(args, key, value)
	}
	c.log.Log(context.Background(), level(e.Level), e.Message, args...)
	return nil
}

func (c *zapCore) Sync() error { return nil }

// failure returns the message of a panic of etcd's. Raft's messages come in several lines.
func failure(message string, err any) string {
	message = strings.Join(strings.Fields(message), " ")
	if err == nil {
		return "etcd: " + message
	}
	return fmt.Sprintf("etcd: %s: %v", message, err)
}

func level(l zapcore.Level) slog.Level {
	if l >= zapcore.ErrorLevel {
		return slog.LevelError
	}
	return slog.LevelWarn
}
