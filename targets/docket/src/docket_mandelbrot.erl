%% The Mandelbrot set, counted: pure computing on all schedulers of the asked member and on no other, for the article's third experiment.
-module(docket_mandelbrot).

-export([picture/2]).

-type picture() :: #{inside := non_neg_integer(), workers := pos_integer(), nodes := [node()]}.
-export_type([picture/0]).

%% The square -2 to 1, -1.5i to 1.5i.
-define(LEFT, -2.0).
-define(BOTTOM, -1.5).
-define(SIDE, 3.0).

%% How many of Size x Size points, each the middle of its square, are still within 2 of the origin after so many iterations
%% of z := z^2 + c. Nothing is cut short for points that are known to be inside: it is there to cost time. `nodes` are those on
%% which lines were computed, as the workers themselves found.
-spec picture(pos_integer(), pos_integer()) -> picture().
picture(Size, Iterations) ->
    Workers = min(erlang:system_info(schedulers_online), Size),
    %% Each has a line of its own, and takes the next when it is done: lines through the middle take longer than others.
    Next = atomics:new(1, []),
    ok = atomics:put(Next, 1, Workers),
    Answer = make_ref(),
    Parent = self(),
    %% Linked, so that nobody computes on for a client that is gone.
    Pids = [spawn_link(fun() -> work(Line, Next, Size, Iterations, Parent, Answer) end) || Line <- lists:seq(0, Workers - 1)],
    {Counts, Nodes} = lists:unzip([receive {Answer, Pid, Count, Node} -> {Count, Node} end || Pid <- Pids]),
    #{inside => lists:sum(Counts), workers => Workers, nodes => lists:usort(Nodes)}.

-spec work(non_neg_integer(), atomics:atomics_ref(), pos_integer(), pos_integer(), pid(), reference()) -> ok.
work(First, Next, Size, Iterations, Parent, Answer) ->
    Count = lines(First, Next, Size, Iterations, 0),
    %% A parent that traps exits is not to find this one's among its messages.
    true = unlink(Parent),
    Parent ! {Answer, self(), Count, node()},
    ok.

lines(Line, _Next, Size, _Iterations, Count) when Line >= Size ->
    Count;
lines(Line, Next, Size, Iterations, Count) ->
    Inside = line(?BOTTOM + ?SIDE * (Line + 0.5) / Size, Size, Iterations, Size - 1, 0),
    lines(atomics:add_get(Next, 1, 1) - 1, Next, Size, Iterations, Count + Inside).

line(_Ci, _Size, _Iterations, Column, Count) when Column < 0 ->
    Count;
line(Ci, Size, Iterations, Column, Count) ->
    Cr = ?LEFT + ?SIDE * (Column + 0.5) / Size,
    line(Ci, Size, Iterations, Column - 1, Count + point(Cr, Ci, 0.0, 0.0, Iterations)).

%% 1 if it stays, 0 if not.
point(_Cr, _Ci, _Zr, _Zi, 0) ->
    1;
point(Cr, Ci, Zr, Zi, Iterations) when is_float(Cr), is_float(Ci), is_float(Zr), is_float(Zi) ->
    R = Zr * Zr - Zi * Zi + Cr,
    I = 2.0 * Zr * Zi + Ci,
    case R * R + I * I > 4.0 of
        true -> 0;
        false -> point(Cr, Ci, R, I, Iterations - 1)
    end.
