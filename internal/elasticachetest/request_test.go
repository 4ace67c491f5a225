package elasticachetest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// passOn reads all commands like the proxy, and returns the bytes that it would send.
func passOn(r io.Reader) (sent []byte, names []string, err error) {
	var out bytes.Buffer
	in := bufio.NewReaderSize(r, 16)
	for {
		q, err := ReadRequest(in)
		if errors.Is(err, io.EOF) {
			return out.Bytes(), names, nil
		}
		if err == nil {
			err = q.Write(&out)
		}
		if err != nil {
			return out.Bytes(), names, err
		}
		names = append(names, q.arg(0))
	}
}

func TestCommandsPassUnchanged(t *testing.T) {
	t.Parallel()
	text := "*1\r\n$4\r\nPING\r\n" +
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$70\r\n" + strings.Repeat("\r\n", 35) + "\r\n" +
		"*3\r\n$4\r\nEVAL\r\n$100\r\n" + strings.Repeat("s", 100) + "\r\n$1\r\n0\r\n" +
		"*2\r\n$100\r\n" + strings.Repeat("n", 100) + "\r\n$0\r\n\r\n"
	for name, r := range map[string]io.Reader{
		"at once":      strings.NewReader(text),
		"byte by byte": iotest.OneByteReader(strings.NewReader(text)),
	} {
		sent, names, err := passOn(r)
		if err != nil || string(sent) != text || fmt.Sprint(names) != "[PING SET EVAL "+strings.Repeat("n", 100)+"]" {
			t.Errorf("%s: commands %q, %v; passed on as %q", name, names, err, sent)
		}
	}
}

func TestWhatIsNoCommand(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"PING\r\n", "\r\n", "$4\r\nPING\r\n", "*1\r\nPING\r\n", "*1\r\n$-1\r\n", "*01\r\n", "*+1\r\n", "*1 \r\n", "*\r\n", "*-2\r\n",
		"*1\r\n$4\r\nPING12", "*2000000\r\n", "*1\r\n$999999999999\r\n", "*1\r\n$" + strings.Repeat("1", 1000),
		"*5\r\n$1\r\nA\r\n$1\r\nB\r\n$1\r\nC\r\n$1\r\nD\r\n:1\r\n",
	} {
		if sent, names, err := passOn(strings.NewReader(text)); !errors.Is(err, errProtocol) {
			t.Errorf("%.60q: %v, %q were passed on; want a protocol error", text, err, append(names, string(sent)))
		}
	}
	for _, text := range []string{"*", "*1\r", "*1\r\n", "*1\r\n$4\r\nPI", "*1\r\n$4\r\nPING\r"} {
		if _, _, err := passOn(strings.NewReader(text)); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: %v, want an unexpected end", text, err)
		}
	}
}

// FuzzRequests checks that the output consists of commands, and that reading it again gives the
// same commands. Input that was read in one piece must not change.
func FuzzRequests(f *testing.F) {
	f.Add([]byte("*1\r\n$4\r\nPING\r\n*0\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"))
	f.Add([]byte("*3\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n0\r\n"))
	f.Add([]byte("PING\r\n"))
	f.Add([]byte("*-1\r\n*1\r\n$-1\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		sent, names, err := passOn(bytes.NewReader(text))
		if err != nil {
			return
		}
		again, same, err := passOn(bytes.NewReader(sent))
		if err != nil || !bytes.Equal(again, sent) || fmt.Sprint(same) != fmt.Sprint(names) {
			t.Errorf("%q is passed on as %q, and that as %q, %v", text, sent, again, err)
		}
		left := bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("*0\r\n"), nil), []byte("*-1\r\n"), nil)
		if !bytes.Contains(sent, []byte("*0\r\n")) && !bytes.Contains(sent, []byte("*-1\r\n")) && !bytes.Equal(left, sent) {
			t.Errorf("%q is passed on as %q", text, sent)
		}
	})
}

func TestLineOfMonitor(t *testing.T) {
	t.Parallel()
	line := `"set" "a \"b\" \\ \x00\xff\r\n\t\a\b" ""` + "\r\n"
	words := wordsOf(line)
	want := []string{"set", "a \"b\" \\ \x00\xff\r\n\t\a\b", ""}
	if fmt.Sprintf("%q", words) != fmt.Sprintf("%q", want) {
		t.Errorf("%q, want %q", words, want)
	}
}
