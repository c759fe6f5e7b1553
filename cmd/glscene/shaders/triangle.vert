uniform highp float angle;
uniform highp float aspect;
attribute highp vec2 position;
attribute highp vec3 color;
varying highp vec3 shade;

void main() {
	highp float s = sin(angle), c = cos(angle);
	highp vec2 p = vec2(c * position.x - s * position.y, s * position.x + c * position.y);
	gl_Position = vec4(p.x * aspect, p.y, 0.0, 1.0);
	shade = color;
}
