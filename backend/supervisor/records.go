package supervisor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// maxFields bounds the fields of one record.
const maxFields = 32

// record is one message of a child's log.
type record struct {
	level  zapcore.Level
	text   string
	fields []zapcore.Field
}

// ownFields are those that the parent writes itself, so that a child does not forge them.
var ownFields = map[string]bool{"level": true, "ts": true, "msg": true, "logger": true, "caller": true, "stacktrace": true, "guest": true}

var errRecord = errors.New("not a record")

// parseRecord reads a line that ChildLogger wrote, or that a hostile child wrote in its place. All
// texts of the record are escaped.
func parseRecord(line []byte) (record, error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return record{}, errRecord
	}
	var r record
	hasLevel := false
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return record{}, fmt.Errorf("%w: %w", errRecord, err)
		}
		key, _ := t.(string) // keys are
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return record{}, fmt.Errorf("%w: %w", errRecord, err)
		}
		if seen[key] {
			return record{}, fmt.Errorf("%w: two fields of one name", errRecord)
		}
		seen[key] = true
		switch {
		case key == "level":
			r.level, hasLevel = parseLevel(value)
		case key == "msg":
			r.text = textOf(value)
		case !ownFields[key] && len(r.fields) < maxFields:
			r.fields = append(r.fields, field(Escape(key), value))
		}
	}
	if _, err := d.Token(); err != nil {
		return record{}, fmt.Errorf("%w: %w", errRecord, err)
	}
	if d.More() || !hasLevel {
		return record{}, errRecord
	}
	return r, nil
}

// parseLevel reads the level of a record. Those above error, after which zap ends the process, are
// error.
func parseLevel(value json.RawMessage) (zapcore.Level, bool) {
	var name string
	if json.Unmarshal(value, &name) != nil {
		return 0, false
	}
	level, err := zapcore.ParseLevel(name)
	return min(level, zapcore.ErrorLevel), err == nil
}

// textOf reads a text, or takes something else as the text that it is written as.
func textOf(value json.RawMessage) string {
	var s string
	if value[0] == '"' && json.Unmarshal(value, &s) == nil {
		return Escape(s)
	}
	return Escape(string(value))
}

// field makes a field of a value: texts, numbers and truth values as they are, and the rest as the
// text that it is written as.
func field(key string, value json.RawMessage) zapcore.Field {
	switch value[0] {
	case 't', 'f':
		return zap.Bool(key, value[0] == 't')
	case '"', '{', '[', 'n':
		return zap.String(key, textOf(value))
	}
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		return zap.Int64(key, n)
	}
	if n, err := strconv.ParseFloat(string(value), 64); err == nil {
		return zap.Float64(key, n)
	}
	return zap.String(key, textOf(value)) // a number that is too large
}
