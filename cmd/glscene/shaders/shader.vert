uniform highp vec2 scale;
attribute highp vec2 corner;
varying highp vec2 at;

void main() {
	gl_Position = vec4(corner, 0.0, 1.0);
	at = corner * scale;
}
