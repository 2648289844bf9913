"""Public tables of votes and rankings, as counts or as one letter per item and vote."""

from __future__ import annotations

import numpy as np

#: American League of 1987: home team, away team, home wins, away wins.
TEAMS = ("Milwaukee", "Detroit", "Toronto", "New York", "Boston", "Cleveland", "Baltimore")
#: Row i has the (home, away) wins of team i at home against the other teams, in their order.
BASEBALL = (
    "43 42 43 61 42 60", "33 42 43 60 61 43", "25 43 24 43 42 60", "33 51 25 43 42 61",
    "51 25 33 42 52 60", "25 33 34 43 42 24", "25 15 16 24 16 34",
)  # fmt: skip
#: Six schools, compared by 303 students: first school, second school, wins, losses, ties.
SCHOOLS = ("Barcelona", "London", "Milano", "Paris", "St.Gallen", "Stockholm")
CEMS = (
    (1, 0, 217, 67, 19), (2, 0, 104, 132, 67), (3, 0, 157, 109, 37), (4, 0, 144, 134, 25),
    (1, 2, 221, 56, 26), (3, 2, 121, 59, 32), (1, 3, 186, 91, 26), (1, 4, 208, 73, 22),
    (2, 4, 135, 140, 28), (3, 4, 165, 119, 19), (0, 5, 172, 90, 41), (1, 5, 250, 34, 19),
    (2, 5, 157, 100, 46), (3, 5, 203, 70, 30), (4, 5, 155, 98, 50),
)  # fmt: skip


def baseball():
    """Return home teams, away teams, and the counts of home wins, away wins and ties."""
    home, away, counts = [], [], []
    for i, row in enumerate(BASEBALL):
        others = [team for k, team in enumerate(TEAMS) if k != i]
        for team, cell in zip(others, row.split(), strict=True):
            home.append(TEAMS[i])
            away.append(team)
            counts.append((int(cell[0]), int(cell[1]), 0))
    return home, away, np.array(counts)


def schools():
    """Return first schools, second schools and the counts of wins, losses and ties."""
    first, second = ([SCHOOLS[row[k]] for row in CEMS] for k in (0, 1))
    return first, second, np.array(CEMS)[:, 2:]


def single_votes(a, b, counts):
    """Return one vote per row, with words for outcomes."""
    words = ("a", "b", "tie")
    rows = [(x, y, word) for x, y, row in zip(a, b, counts, strict=True)
            for word, n in zip(words, row, strict=True) for _ in range(int(n))]  # fmt: skip
    return tuple(map(list, zip(*rows, strict=True)))


#: One letter for each item of a table; its place is the number of the item.
LETTERS = "".join(chr(code) for code in range(33, 127) if chr(code) not in "\"\\'")
#: Orders of four films and numbers of voters (Netflix Prize; PrefLib 00004-00000138).
FILMS = ("Mean Girls", "Beverly Hills Cop", "The Mummy Returns", "Mission: Impossible II")
NETFLIX = (
    "2143:68 1243:53 2134:49 1234:44 2413:39 3214:37 2314:37 2341:36 3241:31 2431:29 1324:22 "
    "3124:19 3421:17 4231:17 4213:16 1423:14 1342:10 4123:10 4312:9 3412:8 1432:8 3142:7 "
    "4321:7 4132:1 "
)
#: The 36 races of the NASCAR season of 2002 (Hunter 2004): 43 of 87 drivers in their order.
NASCAR = (
    "v46RWUfkBL#Aa/G(_eCpZbYi0MjE.Nr$V%+OK`DIS1uVk%u_ABe$N#RvfKpC`OHU0LaE.;GD(4rI^MYSZ+W)/jkDUfuG/#"
    "AHe%`VE.B0IRvW);OMN4rS_LCY(Kapj^+i$u.GV_evUkfR)/pSB0a4`ANDMIHLY$Ej+^i#K%(OWC3;k4O.fGeVB#A`$SWD"
    "IE)Y%Kp^C+jRU0v;LaMuH(m/_iwRH`.%VGEeOUS_Dup0+ka#MYmvAC$/WB9^K;(fjL)43IVBU`uGkH#peYL_0C4DjmSKR/"
    "O);W^%$E5M+i@(Afa.v%Vu/.p`UARDkWv;e0jLSHCBmY($49_#N)aGM^+E5fKw.WRBk/GeAS;6(`vCH_#pN$YMl+jOuV0E"
    "am5DUKL4%ZfGR`#U/ke0WCa7fLBSvAVpm(KIEH+u$Y^l%O._D4;jiMufAUDVBl_HkIC#M;$9(K4+SWejRY0vG%pm^.a/`O"
    "E5zUV_`BuGW#ekpS%Ka+M/C0;$YH5(E9IRl4O.djmDAfvPG#Af/B_a$4uRk+p%er`SWYHjl;EO0.tK,(DMvCmVU3I/UGkB"
    "AuWe0+.S_4M`raLH;m(%l$j9#KfvCVDYpORI*5V/fWBLe`UR#S0G_u;C6Ak.K%M4OHIYpma(jD$2+l?vx`upRC4U#fKaY%"
    "O/LSI_0+Wm(creDA.$F;EGHBMVv&!kWekHU.rGv6O4Dp`$#jS+CB_KM;f0aVR%Am/IY(uiZNLOBuGfR#aU./CpV$k0%`_4"
    "KYSerm+N(lHIDj;EZAMvWnvC/efraRO4HA%kGU`EDW_p.MK$(lBj;mV#0+SYu[IQ6#Rk/fOuVp`%BUvGA_W$M40KIaCS+Y"
    "L;H(62E.DZeQ[m#eVfOBmaG/%upM0W;`CIo.$ESKkUAvHN_r4YL+D6R(Zufa]`gArWUKC&ODGe0$v#B%sLE+MSkp(V_.N/"
    "ImYRJ4/uOAUkGLC.V`%MWD_0BKa#$eSr4YvjfEpHI;2(RZm+tBe.OVRkH%Z$LAMS_#+KaEWUuDmI/YpT(0GCfv;`h24rBf"
    "#k/vRuGAUCS_%.aH4DIe$WNMo+0`pZrLtmVY(OEK[VfC.rU`v0DmZGNe#SOR(_Y9+IMEaKu/%74LWq6ABpHkfRuL%_/WGV"
    ".`MBHUaNeAkK#D0C7EmpZIO+4(9vSP[rYGU/VuARf_L0WC`eSa#YDkMI.4mNZKOt+7qHPBp:r%EvBfeI#.VuDGOpaKSNC4"
    "Z`0%LHUWEMAmRYkr<7n_/[t+v.u`RCmfW/vAaeV_ShK#DHjrE%=OY(U0dN+Z4GpILMB@=%uBeGAf.0WRE/mUZL4SpOKYN("
    "$DC+MHvV#_ra`I9jyRL`.vG_/eUu%KXfmAWV0+paH$MZDorOCY49BS(6lI#:RI/u.B=UVfWA%Smve40a_GLCpYDotHZ`#("
    "$N2+*OrMKLURABY%V_Ca/Nu=40KW`DMfm7OeI+SHp8.<(G$#v9rZVeBU.R0u/4NA`KGLOfvWmrHYDpaZ$#>SI_CdM2%=-h"
    "tRIAUBf#G4$ZvLe/omu`O.=N_7aMp%<S6D2>Y+CKVWH0"
)

#: College ice hockey of 2009/10 (BradleyTerry2): visitor, opponent, and whether the visitor won
#: (w), tied or lost; a capital letter if the opponent was at home. Teams are in alphabetical order.
HOCKEY = (
    "PMWR<L!)L#LW(FL-EL0AL1HT7/W:DL;XL=%L>IL@$lJ2LKBLPMWU?LWVwY6L!)L#LL-EL0AL1Qw7/L9OL;XL=$l>IL@%WG"
    "RLJ2WU?LV(wWFLY6W:BWKDW6MWOLW#!W*JL,<L/:L2[W37L6ML9>L=ZL?GWA;WCILEDLF1TH0LOLLR%lQVLS$LXUT#!W(>"
    "L*PL/:L2[T37L=ZL?GTA;LCITEDLF1WHVLR$TQ0LS%wXUL+YLL,WH@L&XL)KT+LW1WL3*L6CW;<LA?LB2LDUTI%WJGLM:L"
    "O-WQ!LS7LTRLY>LZ#W[EW&RL)KW6CW9/W;GL=(T@,LA?WB2LDULI%LJWLM:WO-WQ!LS7LTXWV0LZ#W[EL3>L9/W=(W&TL%"
    "CL(1T,WW-FT.NL0DL3QL7$L85W9&L<OW=*L>+L?KW@:WE6LG[LH4LMLLPSWRXWTVLUBLY;LZAL!/L&9T(RW)#W-FL0DL3Q"
    "L7$L=*W?KW@:WAZWE6TG[LH1LMLTO<WPSLTVTUBWW,W]NW!/W%CL)#W+>LFAL&3L(QL*!T+GT,JL-7L.XT/=W0PL54L6%W"
    "81L9TW:ZT?@WC[LD2WFATH<LIBWKMWL$WS)LVNWWYT]RL&3L(QL*!L-7L.RL0NL51L6%L84L:ZL=/L?@WC[WD2LIBWJ+LK"
    "MLL$LS)LT9WVPL]XT,;L<HWGWLOYL!9W$-L%[L&(L,>L1.W2EW4]L5NL7?T8PL:FL;JWA@WBDWG<LR0WQ=WSHWT*LUILW#"
    "WXVWZML!9T$-W%[L(&L)CL1]T2EW3/T4.W5PL7?T8NT:FW;JL>,L@ALBDLG<WHSTKLWRVLQ=WT*TUIWW#WX0WY+LZML)CW"
    "3/LKLTY+W.OLRHL<]WLAT!3T#)L$:L(*W+;W,GL-@W/&W05W9=L?ZWDCWE%WFKLI6LM7LN4LOJLP1WS2LTQLV8W[UL!3W#"
    ")L$:W(*L+;T/&W08T9=L>WL?ZT@-wDCWE%LFKLG,TI6LJOTM7LN1LP4WS2LTQLV5L[UW].WALl*.W,8W14L39L<YWT]LWO"
    "LHSWNPL%2L*RL-LL/(L0+L:Xt;WW=&W?)lBELC@LK$TMILO5LU6LYJWZFL[AW%2W,4t-LT/(L3.L:*t<PL=&W?ITBELCAW"
    "G>WK$TM)wU6WV;lXRWZFL[@L]9W58W]YL.8W#ST$ZL&!L*/W+<W0VT1XL3=L4RW62W:-W@MLAKWB[LECWF7LH)LIDWJ>LL"
    "?LN.LO;LP]LQ9TT(LU%WWGLY,T#SW$ZT&!L*/L+,W1RW26T3=L4XT:-W<WL>JL@MWAKLB[LCEWF7LH)LIDLL?LN]LO;LP."
    "LQ9WT(LU%WV0WGYW&.L+8WXRWP9T2UT6DW7ZW=!T?MWA-WCBWE)WF$LGOWK:LL@LNWLR,W[IT&PL+OW-AL2UW6DL=!W><L"
    "CBWE)WF$WHQWJ;LK:LM?LNWWVYLZ7L[IW@LLT5WS/TBKLFET5YLEFL1/L*3W24wABwN;tP8LR@wX<l4Nl;2w<*l@BwRAlX"
    "3WF6LQELV+w!TL#YL)ZT+6L-CL.UL0Kl1Ll7]l9Wl:SW<,L=Dl>[LFVtHIlJ5WQELX(W!TL)ZW.UL0-l1Hl4GW95W:SW=#"
    "l>7lDYLILtJWwKCW][TPNL#0L$FW%6T&=L(TT,+w-ML.5L/*L2DL3!L8CL9QL:AL?SL@ZWBULEILRPWVHWWGTXNW#0T$FL"
    "%6L&=L(TL-ML/*W2DL3!T7LW8CL9QL:AT<GL>;LBULEILVHLWJWXPWZ@L7LW<JWRNWS?W]5WKBTO+L]8L!*W#SL$@L%BW&"
    "9T(/L)HL,OL-KL1VL40W;+L=TL?7WALLDEWF:LICTJYWQ3WUPWW<L[2W!*W#SL$@T%BW(/T)HW-KT.]L10W4VT5Gl9&L;O"
    "L<WW=TL>,L?7WDEWF:LICLJYLLATRXLQ3LUPW[2L58LOJL*=W,+W.VL/TL2%W3(L5RL6[T7@L8XW9!W>WL?$TCULD)LGOW"
    "HPWI4LKFLL:WMALQ&WS1LZ-T]0W)DW*=L+WL.0W/TT2%L3(W5XW6[L8RT9!L?$W@7LG,WHPTI4WKFLL:TMAWO>LQ&WS1TU"
    "CWY<LZ-L]VLY<W3NLT&W!(L$KT*QL01L6IW7ML;YW<,L@ALC%WEBLFLWG>LH#LN8WO+LP5LR.LS)LT3WU2WV4LWJLX]LZ?"
    "L[DW!(T$KL*QW04L6IW7MT;YT<OW>GLA@lC%LEBWFLLH#LN5WR]WS)WT3WU2LV1WX.TZ?L[DL8+lJ,lSHT@-W!2L%UT(9L"
    "*&L+<W,WW/3W0XL1NW4PW5]L8.W:?L=6LA$LDBLG;LJ>WK7TLZLMFTQTWVRTYOW%UL(9W*&L/3W0RL1PL4NL5.T6!W8]L:"
    "?L=2L@[LA$TDBWG;LK7WLZLMFLQTLVXLW>LYOT+,w8Jl-@L39L#HW$MW)SL+WL.4L7:L9*W;,L=/W>YT?-W@FLC6LE[LIU"
    "LJ<WN0LOGLPVWR8WQ(WT&WX5WZKL]1W$MT&TL)SW*9L.1L/=W7:W;,L<JL>YW?-W@FLC6LE[LIUWNVTP0LR5LQ(WW+LX8L"
    "ZKL]4W41W!QL%EL(=T*3L+JL,OL0.L15T2CL48W9TL:$L<>LA7LB6LDILF?LH)LK@WL-LMZWNXLPRLU[WV]LW;LYGL!QL%"
    "EL&/T(=L0]L18W2CL3*L45L7AL:$L><WB6LDILF?WH)LK@LL-TMZTNRWO,LPXLS#LT9WU[LV.TW;WYGT&/LJ+LS#W>+LL@"
    "L#HL$%W(&W)FW*9L,YL-AL.PL/QL5VW6EW80L:KL;>L<+L=3WCDWGJTI2WM?LOWLR1LT!LX4LZ7T[BW]NW#HL%$L&(T)FL"
    ".NL/QL50T6EW7ZT8VL9*T:KL;>W=3L?MT@LLA-TCDLI2WJGLR4TT!LWOTX1L[BW]PL#HW,YL&9L)#W+GT-FL.RW0VL26W5"
    "PL8NW:@L<;W>OWBILD%LHSWJ,LLMLUELYWLZ$L[CW)#T,JW-FL.RL0VW3*W5PW62W8NW:@L<;WBILD%WEUTG+LLMLO>TSH"
    "LYWTZ$L.RW0VL5PL[CL#Sw$KL%[L(!L.]W/=W2DL3QL84L9TL<+L>,L@AWB6LCILEUWF7LH)wM?LPXWV1WW;WYGL$KL%[L"
    "(!L.]L/=W2DW3QL84L9TL<+L>,W@AWB6LCIWEULF7LH#lM?WPXLS)tV1WW;LYGW.]W2DL>,LCILEULM?LPXLW;LYGWDIl!"
    "Tl.4l/Ql;,w@?wI6wK7wU[wVXlY+l.Vw7?l;+l@KwIUwTQlX4l[6w"
)

#: Contests of 35 chameleons (Stuart-Fox et al. 2006; BradleyTerry2): winner, loser, and 1 + the
#: difference of their wins in the last two contests.
CHAMELEONS = (
    "8#1%)1:91@E13?1<D1%(29@0:E2*/12;17#18623D2<?29E2:@2.+1A=1>$1C!11B1,-14-18726#1<31>!2C$2&,0501*"
    "21;/1.=2A+21-24B2*;22/2+=1.A1,025&1-B1411>C1&025,2*=3.$3>62<%1D(1491A*02=2.>1380D)21@22+2;=2A$"
    "2D%21024&2A!3.627?2<11CA0*#26)1DE3:51;$2C%22?3702131,@2.71,314:1*%2/=1.33C62>@2D-2<52;(3+)29&1"
    "8&2,12,.1+02C>2D62<:2A-1911/$2;?3@01"
)
#: For each chameleon, the residual area of its casque and the share of its main colour.
CHAMELEON_FEATURES = (
    (0.94, 35.66853756), (0.85, 21.13429221), (0.02, 25.84193276), (-1.76, 33.21091076),
    (0.02, 25.10409025), (-0.37, 25.10409025), (-0.87, 27.97210113), (-0.01, 24.3500636),
    (0.63, 24.3500636), (1.63, 31.30644625), (-0.58, 30.65729899), (1.46, 31.94805943),
    (-0.54, 34.44990199), (-0.11, 31.30644625), (0.11, 33.21091076), (-0.21, 22.786498),
    (0.49, 31.30644625), (0.24, 33.21091076), (0.02, 27.27472868), (0.18, 27.97210113),
    (0.45, 37.46496893), (-0.59, 31.94805943), (0.25, 27.97210113), (0.24, 22.786498),
    (0.18, 25.10409025), (0.39, 45.0), (-1.11, 35.66853756), (-0.4, 33.21091076),
    (-1.02, 21.13429221), (1.63, 26.56505118), (-0.47, 27.27472868), (-0.3, 25.10409025),
    (0.26, 32.58270626), (-1.88, 31.30644625), (-1.08, 31.30644625),
)  # fmt: skip


def hockey():
    """Return visitors, opponents, outcomes, and −1 for each game at the opponent's home."""
    games = [HOCKEY[k : k + 3] for k in range(0, len(HOCKEY), 3)]
    visitor, opponent = ([LETTERS.index(game[k]) for game in games] for k in (0, 1))
    words = {"w": "a", "t": "tie", "l": "b"}
    away = np.array([-1.0 if game[2].isupper() else 0.0 for game in games])
    return visitor, opponent, [words[game[2].lower()] for game in games], away


def chameleons():
    """Return winners, losers, and the differences of their earlier wins."""
    rows = [CHAMELEONS[k : k + 3] for k in range(0, len(CHAMELEONS), 3)]
    winner, loser = ([LETTERS.index(row[k]) for row in rows] for k in (0, 1))
    return winner, loser, np.array([float(row[2]) - 1.0 for row in rows])


def nascar():
    """Return the races as lists of drivers, whose numbers begin at 0."""
    places = [LETTERS.index(letter) for letter in NASCAR]
    return [places[k : k + 43] for k in range(0, len(places), 43)]


def netflix():
    """Return orders of films, and the number of voters of each."""
    rows = [text.split(":") for text in NETFLIX.split()]
    return [[FILMS[int(k) - 1] for k in order] for order, _ in rows], [int(n) for _, n in rows]
