% The register's rules of admission, as a server: one process, one thread, one request at a time over all connections. That is
% what it is for: the article's cluster had such a bottleneck. It must not answer two requests at once, nor keep anything
% between two.
%
%   swipl -f none -q -O register.pl -- HOST PORT
%
% writes a line `listens.` when it does. A line `admit("ID", "PARTY", LENGTH).` is answered by a line `admitted.` or
% `refused(REASON).`; what cannot be understood by `refused(not_understood).` It ends when its standard input does.
%
% Admitting takes 13 600 inferences, about 0.7 ms on a server's core (AMD EPYC), whoever asks: the least burdened of all benches
% that could hear the case is looked for, by trying them all.

:- use_module(library(socket)).
:- use_module(library(readutil)).
:- use_module(library(aggregate)).
:- use_module(library(lists)).
:- use_module(library(apply)).

:- initialization(main, main).

% ---- what may be admitted ----

%!  decide(+Id, +Party, +Length, -Answer) is det.
%   The first ground to refuse there is, or admitted.
decide(Id, Party, Length, Answer) :-
    (   ground_to_refuse(Id, Party, Length, Reason)
    ->  Answer = refused(Reason)
    ;   Answer = admitted
    ).

ground_to_refuse(Id, _, _, malformed_id) :-
    \+ well_formed_id(Id).
ground_to_refuse(_, Party, _, no_party) :-
    split_string(Party, " \t\n", " \t\n", [""]).
ground_to_refuse(_, Party, _, party_too_long) :-
    string_length(Party, Characters),
    Characters > 1000.
ground_to_refuse(_, _, Length, too_short) :-
    Length < 2.                                 % no JSON object is shorter
ground_to_refuse(_, _, Length, too_long) :-
    Length > 65536.
ground_to_refuse(_, Party, _, vexatious_party) :-
    vexatious(Party).
ground_to_refuse(_, Party, Length, no_bench) :-
    \+ least_burdened_bench(Party, Length, _).

well_formed_id(Id) :-
    string_codes(Id, Codes),
    length(Codes, N),
    N >= 1, N =< 200,
    forall(member(Code, Codes), id_code(Code)).

id_code(Code) :- code_type(Code, csym), Code < 128, !.      % letters, digits, _
id_code(0'.).
id_code(0'-).

vexatious("Jarndyce and Jarndyce").

% ---- who may hear it ----

%!  least_burdened_bench(+Party, +Length, -Bench) is semidet.
%   A president and two assessors of his or of neighbouring chambers, not related to each other or to the party, all with
%   enough hours left for it, and a substitute.
least_burdened_bench(Party, Length, Bench) :-
    names(Party, Names),
    Hours is 1 + Length // 8192,
    aggregate_all(min(Burden, bench(P, A, B, S)), bench(Names, Hours, P, A, B, S, Burden), min(_, Bench)).

bench(Names, Hours, President, A, B, S, Burden) :-
    judge(President, C1, Rank, Left1, Load1),
    Rank >= 3,
    Left1 >= Hours,
    \+ partial(President, Names),
    judge(A, C2, _, Left2, Load2),
    A \== President,
    Left2 >= Hours,
    near(C1, C2),
    \+ related(President, A),
    \+ partial(A, Names),
    judge(B, C3, _, Left3, Load3),
    B @> A,
    B \== President,
    Left3 >= Hours,
    near(C1, C3),
    \+ related(President, B),
    \+ related(A, B),
    \+ partial(B, Names),
    judge(S, C4, _, _, Load4),
    near(C1, C4),
    \+ memberchk(S, [President, A, B]),
    \+ partial(S, Names),
    Burden is max(Load1, max(Load2, Load3)) * 100 + Load1 + Load2 + Load3 + Load4 / 10.

near(C, C).
near(C, D) :- next_to(C, D).
near(C, D) :- next_to(D, C).

next_to(civil, family).
next_to(family, labour).
next_to(labour, commerce).
next_to(commerce, civil).

%   A judge does not hear the case of a relative.
partial(Judge, Names) :-
    member(Name, Names),
    ( Name == Judge ; related(Judge, Name) ).

%   By blood or by marriage, at most two steps away.
related(A, B) :- kin(A, B), !.
related(A, B) :- kin(A, C), kin(C, B), A \== B, !.

kin(A, B) :- family(A, B).
kin(A, B) :- family(B, A).

%   The words of a party, as the names they may be.
names(Party, Names) :-
    split_string(Party, " ,;&\t\n", ".", Words),
    convlist([Word, Name]>>( Word \== "", string_lower(Word, Lower), known_name(Lower, Name) ), Words, Names).

known_name(Lower, Name) :-
    atom_string(Name, Lower),
    once(( judge(Name, _, _, _, _) ; kin(Name, _) )).

%   judge(Name, Chamber, Rank, Hours left this week, Cases at hand)
judge(aubry,     civil,    4, 30, 12).
judge(baudin,    civil,    2, 24, 17).
judge(carpentier, civil,   1, 36,  9).
judge(delorme,   family,   3, 18, 21).
judge(esteve,    family,   2, 40, 15).
judge(fournier,  family,   1, 28, 11).
judge(girard,    labour,   4, 22, 19).
judge(hamelin,   labour,   2, 35, 14).
judge(imbert,    labour,   1, 27, 16).
judge(jolivet,   commerce, 3, 31, 13).
judge(keller,    commerce, 2, 20, 22).
judge(lambert,   commerce, 1, 33, 10).

family(aubry, imbert).
family(baudin, moreau).
family(delorme, keller).
family(esteve, noiret).
family(girard, moreau).
family(hamelin, perrot).
family(jolivet, fournier).
family(keller, perrot).
family(lambert, noiret).

% ---- the server ----

:- dynamic client/2.                            % client(In, Out)

main([Host, Word]) :-
    catch(atom_number(Word, Port), _, fail),
    integer(Port),
    !,
    catch(listen(Host, Port, Listening), Error, ( explain(Error), halt(1) )),
    format("listens.~n"),
    flush_output,
    repeat,
    catch(turn(Listening), Error, explain(Error)),
    fail.
main(_) :-
    format(user_error, "usage: swipl register.pl -- HOST PORT~n", []),
    halt(2).

%   One that was started before this and is about to end may have the port for a moment longer.
listen(Host, Port, Listening) :-
    between(1, 30, _),
    catch(listen_now(Host, Port, Listening), _, ( sleep(0.1), fail )),
    !.
listen(Host, Port, Listening) :-
    listen_now(Host, Port, Listening).

listen_now(Host, Port, Listening) :-
    tcp_socket(Socket),
    setup_call_catcher_cleanup(
        tcp_setopt(Socket, reuseaddr),
        ( tcp_bind(Socket, Host:Port), tcp_listen(Socket, 128), tcp_open_socket(Socket, Listening) ),
        Catcher,
        ( Catcher == exit -> true ; tcp_close_socket(Socket) )).

%   Whoever has something to say gets one turn.
turn(Listening) :-
    findall(In, client(In, _), Ins),
    wait_for_input([user_input, Listening|Ins], Ready, infinite),
    forall(member(Stream, Ready), serve(Stream, Listening)).

serve(user_input, _) :- !, end_if_closed.
serve(Listening, Listening) :- !, accept(Listening).
serve(In, _) :-
    client(In, Out),
    (   catch(answer(In, Out), Error, ( explain(Error), fail ))
    ->  true
    ;   retractall(client(In, Out)),
        close(In, [force(true)]),
        close(Out, [force(true)])
    ).

end_if_closed :-
    stream_property(Stream, alias(user_input)),
    (   get_char(Stream, end_of_file)
    ->  halt(0)
    ;   true
    ).

accept(Listening) :-
    tcp_accept(Listening, Socket, _),
    tcp_setopt(Socket, nodelay),
    tcp_open_socket(Socket, In, Out),
    set_stream(In, encoding(utf8)),
    set_stream(Out, encoding(utf8)),
    set_stream(In, timeout(5)),                 % whoever begins a line and does not end it holds up all others
    assertz(client(In, Out)).

%   Fails when the connection is at its end.
answer(In, Out) :-
    read_line_to_string(In, Line),
    Line \== end_of_file,
    (   catch(term_string(Request, Line), _, fail),
        nonvar(Request),
        Request = admit(Id, Party, Length),
        string(Id), string(Party), integer(Length)
    ->  decide(Id, Party, Length, Answer)
    ;   Answer = refused(not_understood)
    ),
    format(Out, "~q.~n", [Answer]),
    flush_output(Out).

explain(Error) :-
    message_to_codes(Error, Text),
    format(user_error, "register.pl: ~s~n", [Text]).

message_to_codes(Error, Codes) :-
    (   catch(message_to_lines(Error, Codes), _, fail)
    ->  true
    ;   format(codes(Codes), "~q", [Error])
    ).

message_to_lines(Error, Codes) :-
    phrase(prolog:translate_message(Error), Lines),
    with_output_to(codes(Codes), print_message_lines(current_output, '', Lines)).
