package hypercall

import (
	"errors"
	"reflect"
)

// ErrLater reports that a Server completes a request later, by itself.
var ErrLater = errors.New("the request is answered later")

// Payload describes the request or the answer of an operation. The zero value stands for none:
// the backend does not look at one that is there all the same, so that a later version may add it.
type Payload struct {
	Type   reflect.Type // nil: none
	Decode func([]byte) (any, error)
}

// Name returns the name of the type, "text" for Text and "" for none.
func (p Payload) Name() string {
	switch p.Type {
	case nil:
		return ""
	case reflect.TypeFor[Text]():
		return "text"
	}
	return p.Type.Name()
}

// call is the part of a row that knows the types of request and answer.
type call struct {
	Request, Answer Payload
	serve           func(s Server, payload []byte) (answer []byte, err error)
}

// encodable is implemented by every payload type.
type encodable interface{ Append([]byte) []byte }

func payload[M encodable](decode func([]byte) (M, error)) Payload {
	return Payload{Type: reflect.TypeFor[M](), Decode: func(b []byte) (any, error) { return decode(b) }}
}

// plain is a call without request and answer.
func plain(serve func(Server) error) call {
	return call{serve: func(s Server, _ []byte) ([]byte, error) { return nil, serve(s) }}
}

// takes is a call with a request and no answer.
func takes[M encodable](decode func([]byte) (M, error), serve func(Server, M) error) call {
	return call{Request: payload(decode), serve: func(s Server, b []byte) ([]byte, error) {
		m, err := decode(b)
		if err != nil {
			return nil, err
		}
		return nil, serve(s, m)
	}}
}

// gives is a call without a request whose answer comes when it succeeds.
func gives[A encodable](serve func(Server) (A, error), decode func([]byte) (A, error)) call {
	return call{Answer: payload(decode), serve: func(s Server, _ []byte) ([]byte, error) {
		a, err := serve(s)
		if err != nil {
			return nil, err
		}
		return a.Append(nil), nil
	}}
}

// asks is a call with a request whose answer comes when it succeeds.
func asks[M, A encodable](decode func([]byte) (M, error), serve func(Server, M) (A, error), answer func([]byte) (A, error)) call {
	return call{Request: payload(decode), Answer: payload(answer), serve: func(s Server, b []byte) ([]byte, error) {
		m, err := decode(b)
		if err != nil {
			return nil, err
		}
		a, err := serve(s, m)
		if err != nil {
			return nil, err
		}
		return a.Append(nil), nil
	}}
}

// explains is a call with a request whose answer comes when it fails, and says more than the errno.
func explains[M, A encodable](decode func([]byte) (M, error), serve func(Server, M) (A, error), answer func([]byte) (A, error)) call {
	return call{Request: payload(decode), Answer: payload(answer), serve: func(s Server, b []byte) ([]byte, error) {
		m, err := decode(b)
		if err != nil {
			return nil, err
		}
		a, err := serve(s, m)
		if err == nil || err == ErrLater {
			return nil, err
		}
		return a.Append(nil), err
	}}
}

// execCall is takes(DecodeExec, Server.Exec) without indirect calls.
var execCall = call{Request: payload(DecodeExec), serve: func(s Server, b []byte) ([]byte, error) {
	m, err := DecodeExec(b)
	if err != nil {
		return nil, err
	}
	return nil, s.Exec(m)
}}
